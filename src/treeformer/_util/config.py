"""Dataclasses from nested tables (YAML, JSON), checked key by key; a mistake is one line that names the key."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from treeformer.errors import TreeformerError

T = TypeVar("T")


class ConfigError(TreeformerError):
    """A key that is unknown, or a value that cannot be."""


def build(kind: type[T], table: Any, where: str) -> T:
    """A dataclass from nested tables, strictly: unknown keys and wrong types are errors that name the key."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: must be a table of keys and values, not {table!r}")
    hints = get_type_hints(kind)
    for key in table:
        if key not in hints:
            raise ConfigError(f"{where}: unknown key {key!r}; known are {', '.join(hints)}")
    return kind(**{key: _convert(hints[key], value, f"{where}: {key}") for key, value in table.items()})


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return build(hint, value, where)  # type: ignore[arg-type]
    if origin is Literal:
        if isinstance(value, int) and str(value) in arguments:
            return str(value)  # precision: 32 is a number to YAML
        if value not in arguments:
            raise ConfigError(f"{where} must be one of {', '.join(map(str, arguments))}, not {value!r}")
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} must be a list, not {value!r}")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_convert(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
        if len(value) != len(arguments):
            raise ConfigError(f"{where} must have {len(arguments)} values, not {len(value)}")
        return tuple(_convert(a, item, where) for a, item in zip(arguments, value, strict=True))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if origin is dict or hint is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{where} must be a table of keys and values, not {value!r}")
        return value
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ConfigError(f"{where} must be {_NAMES.get(hint, hint.__name__)}, not {value!r}")
    return value


_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
