"""The folder of a user: which file belongs to which image, what it is, and whether it may be replaced."""


class ChoiceWarning(UserWarning):
    """An image has several skeleton files, of which one is used."""
