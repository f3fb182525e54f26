"""The error that becomes the answer to a request."""

from __future__ import annotations

from typing import Any

from treeformer.errors import TreeformerError


class RequestError(TreeformerError):
    """A request that is refused: one sentence for the user, the HTTP status, and further keys of the answer."""

    def __init__(self, message: str, status: int = 400, **details: Any) -> None:
        super().__init__(message)
        self.status, self.details = status, details
