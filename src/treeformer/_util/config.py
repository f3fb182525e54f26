"""Build dataclasses from nested tables (YAML, JSON), checked key by key. A mistake is one line with the key."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from treeformer._util.text import DECIMAL_NUMBER, short_repr
from treeformer.errors import TreeformerError

T = TypeVar("T")

TYPE_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


class ConfigError(TreeformerError):
    """A configuration has an unknown key or an invalid value."""


def parse_yaml(text: str) -> Any:
    """Parse a YAML document; all errors are `yaml.YAMLError`, also those of PyYAML for a date such as 2024-02-30."""
    import yaml

    try:
        return yaml.safe_load(text)
    except (ValueError, AttributeError, RecursionError) as error:
        raise yaml.YAMLError(str(error)) from None


def build(kind: type[T], table: Any, where: str) -> T:
    """Build a dataclass from nested tables. An unknown key or a wrong type is a `ConfigError` that begins with `where`.

    Fields may be dataclasses, tuples, dictionaries, literals and unions with None; missing ones have their defaults.
    Whole numbers are accepted for float fields, and so is text that is a decimal number, because PyYAML reads `1e-4` as
    text.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Optimizer:
        ...     learning_rate: float = 0.1
        >>> build(Optimizer, {"learning_rate": "1e-4"}, "run.yaml").learning_rate
        0.0001
    """
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where}: must be a table of keys and values, not {short_repr(table)}")
    hints = get_type_hints(kind)
    for key in table:
        if key not in hints:
            raise ConfigError(f"{where}: unknown key {short_repr(key)}; known are {', '.join(hints)}")
    return kind(**{key: _convert(hints[key], value, f"{where}: {key}") for key, value in table.items()})


def convert_fields(config: object) -> None:
    """Convert the values of a frozen dataclass, in place, to the types of its fields: lists become tuples.

    Call it in `__post_init__`, for objects made without `build`. A value of the wrong type is a `ConfigError`.
    """
    hints = get_type_hints(type(config))
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, field.name)
        object.__setattr__(config, field.name, _convert(hints[field.name], value, field.name))


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Return a value as the type of its field, or raise `ConfigError`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return build(hint, value, where)  # type: ignore[arg-type]
    if origin is Literal:
        if isinstance(value, int) and str(value) in arguments:
            return str(value)  # YAML reads `precision: 32` as a number
        if value not in arguments:
            raise ConfigError(f"{where} must be one of {', '.join(map(str, arguments))}, not {short_repr(value)}")
        return value
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        return _convert(next(a for a in arguments if a is not type(None)), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigError(f"{where} must be a list, not {short_repr(value)}")
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_convert(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value))
        if len(value) != len(arguments):
            raise ConfigError(f"{where} must have {len(arguments)} values, not {len(value)}")
        return tuple(_convert(a, item, where) for a, item in zip(arguments, value, strict=True))
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    # PyYAML reads numbers with an exponent but without a decimal point, such as 1e-4, as text.
    if hint is float and (is_integer or (isinstance(value, str) and DECIMAL_NUMBER.fullmatch(value))):
        try:
            return float(value)
        except OverflowError:
            raise ConfigError(f"{where} is {short_repr(value)}, which is too large") from None
    if origin in (dict, Mapping) or hint is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{where} must be a table of keys and values, not {short_repr(value)}")
        return value
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise ConfigError(f"{where} must be {TYPE_NAMES.get(hint, hint.__name__)}, not {short_repr(value)}")
    return value
