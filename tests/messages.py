"""Check what a program printed for a person."""

from __future__ import annotations


def one_line(err: str) -> str:
    """Return the only line of a message on standard error."""
    lines = [line for line in err.splitlines() if line.strip()]
    assert len(lines) == 1, err
    return lines[0]
