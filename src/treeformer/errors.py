"""Errors that users can cause; the command line prints them as a single line."""


class TreeformerError(ValueError):
    """Invalid input; the message is one line and identifies the file, key or value."""


class SkeletonError(TreeformerError):
    """An invalid skeleton; the message identifies the node, edge or axis."""


class FormatError(TreeformerError):
    """A file that cannot be read or written, or a skeleton that a format cannot store."""
