"""The one family of errors a user can cause; the command line prints them as a single line."""


class TreeformerError(ValueError):
    """Something in the input is wrong; the message is one line and names what."""


class SkeletonError(TreeformerError):
    """A skeleton that cannot be: the message names the node, edge or axis at fault."""


class FormatError(TreeformerError):
    """A file that cannot be read or a skeleton that a format cannot hold."""
