"""Commands that judge: evaluate."""
