"""Numbers in text files, values in error messages, and file names in tables."""

from __future__ import annotations

import re

DECIMAL_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def decimal_number(text: str) -> float:
    """Return the number that a text is, as other programs read it: digits, a point and an exponent.

    Anything else is a `ValueError`. Python's `float` also accepts 1_0 for 10, the digits of other scripts, nan and
    infinity.

    Example:
        >>> decimal_number(" -1.5e3 ")
        -1500.0
    """
    if not DECIMAL_NUMBER.fullmatch(text.strip()):
        raise ValueError(f"{short_repr(text)} is not a number")
    return float(text)


def short_repr(value: object, longest: int = 40) -> str:
    """Return the beginning of the `repr` of a value of any size for error messages, on one line.

    Example:
        >>> short_repr([1.5] * 50)
        '[1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5, 1.5…'
    """
    if isinstance(value, str):
        value = value[: longest + 1]  # the rest is not shown
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # an integer with thousands of digits, or a deeply nested list
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= longest else text[: longest - 1] + "…"


def as_unicode(name: str) -> str:
    """Return a file name with bytes that are not UTF-8 as escape sequences, as pandas' Arrow strings need it.

    Example:
        >>> as_unicode("gr\\udcfcn.png") == "gr" + chr(92) + "udcfcn.png"
        True
    """
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
