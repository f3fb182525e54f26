"""What the metadata of a skeleton say about its prediction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treeformer.skeleton.skeleton import Skeleton


def prediction_record(skeleton: Skeleton) -> dict[str, Any]:
    """Return how a skeleton was predicted: `metadata["prediction"]`, without values that are no text and no number.

    Example:
        >>> from treeformer import Skeleton
        >>> prediction_record(Skeleton([], [], metadata={"prediction": {"model": "default", "other": [1]}}))
        {'model': 'default'}
        >>> prediction_record(Skeleton([], []))
        {}
    """
    record = skeleton.metadata.get("prediction")
    if not isinstance(record, Mapping):
        return {}
    return {name: value for name, value in record.items() if isinstance(name, str) and _is_plain(value)}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
