"""Read and check the parameters of a request. Errors are one sentence."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from starlette.requests import Request

from treeformer.web.errors import RequestError
from treeformer.web.predicting import Region

Body = dict[str, Any]

INTEGER = re.compile(r"-?[0-9]{1,9}")


def whole_number(request: Request, name: str) -> int:
    """Return a parameter of the address as a whole number."""
    text = request.query_params.get(name, "")
    if not INTEGER.fullmatch(text):
        raise RequestError(f"{name} must be a whole number.")
    return int(text)


def finite_number(value: object, name: str) -> float:
    """Return a value, or its text, as a finite number."""
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        number = float(value)
        if not math.isfinite(number):
            raise ValueError
    except (ValueError, OverflowError):
        raise RequestError(f"{name} must be a number.") from None
    return number


def region_of(value: object) -> Region | None:
    """Return left, top, right and bottom as whole px, None for null. Raise RequestError if it is anything else."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 4:
        raise RequestError("region must be four numbers.")
    left, top, right, bottom = (finite_number(one, "region") for one in value)
    return math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom)


async def json_body(request: Request) -> Body:
    """Return the JSON object in the body of a request. NaN and Infinity are refused."""

    def reject(literal: str) -> None:
        raise ValueError(literal)

    if request.headers.get("content-type", "application/json").partition(";")[0].strip() != "application/json":
        raise RequestError("The body must be JSON.", 415)
    data = await request.body()
    try:
        body = json.loads(data or b"{}", parse_constant=reject)
    except (ValueError, RecursionError):
        raise RequestError("The body is not JSON.") from None
    if not isinstance(body, dict):
        raise RequestError("The body must be a JSON object.")
    return body
