"""Model folders: open, check and write them, and read and write their weights as safetensors."""
