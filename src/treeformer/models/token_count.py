"""The number of tokens as a dynamic size, within the bounds that `torch.export` needs."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

MIN_TOKENS = 2  # torch.export treats the sizes 0 and 1 as special cases


def read_token_count(count: Tensor, largest: int) -> int:
    """Return a count from the device as a size, with the bounds that `torch.export` needs.

    The count is a scalar int64, at least `MIN_TOKENS` and at most `largest`.
    """
    size = cast(int, count.item())  # not int(…): torch.export traces a symbolic number here
    torch._check(size >= MIN_TOKENS)  # type: ignore[no-untyped-call]  # torch's stubs lack the types
    torch._check(size <= largest)  # type: ignore[no-untyped-call]  # torch's stubs lack the types
    return size
