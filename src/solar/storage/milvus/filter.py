"""Conditions on photos as boolean expressions of Milvus."""

from __future__ import annotations

import json
from collections.abc import Iterable

from solar.errors import SolarError
from solar.storage.conditions import Condition, Where
from solar.storage.geo import Area
from solar.storage.milvus.schema import TYPES
from solar.storage.own_fields import FieldValue

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"})
_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def quoted(text: str) -> str:
    """A text as a literal of Milvus."""
    return f'"{text.translate(_ESCAPES)}"'


def among(name: str, values: Iterable[str | int]) -> str:
    """The condition that a field has one of these values."""
    return f"{name} in [{', '.join(map(_literal, values))}]"


def expression(where: Where, partition_tag: str | None = None) -> str:
    """All conditions together; empty for none.

    A condition on a tag that begins with `partition_tag` also restricts the partition.
    """
    parts = [_one(condition) for condition in where]
    if partition_tag is not None:
        tags = [str(condition.value) for condition in where if condition.field == "tag"]
        parts += [f"partition == {quoted(tag)}" for tag in tags if tag.startswith(partition_tag)]
    return " and ".join(f"({part})" for part in parts)


def after_prefix(prefix: str) -> str | None:
    """The first text, by code points, after all that begin with the prefix; None if none is."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _LAST:
            return prefix[: end - 1] + chr(code)
    return None


def with_field(name: str) -> list[str]:
    """Conditions of which a photo with this own field satisfies one: servers refuse their `or`."""
    return [f"exists {_typed(name, kind)}" for kind in (str, int, bool)]


def _typed(name: str, kind: type) -> str:
    return f"fields[{quoted(TYPES[kind] + name)}]"


def _literal(value: FieldValue) -> str:
    return quoted(value) if isinstance(value, str) else json.dumps(value)


def _one(condition: Condition) -> str:
    name, relation, value = condition.field, condition.relation, condition.value
    if isinstance(value, Area):
        raise SolarError(
            "A Milvus collection does not store positions: leave out near, or build an index in a "
            "folder."
        )
    if condition.own:
        sign, values = (relation, [value]) if relation != "=" else ("==", condition.choices)
        return " or ".join(f"{_typed(name, type(one))} {sign} {_literal(one)}" for one in values)
    if name == "tag":
        return f"array_contains(tags, {quoted(str(value))})"
    if name == "path":
        # A range instead of `like`, whose wildcards cannot be escaped on every server.
        end = after_prefix(str(value))
        start = f"path >= {quoted(str(value))}"
        return start if end is None else f"{start} and path < {quoted(end)}"
    if name == "taken":
        compared = f"taken {relation} {quoted(str(value))}"
        return f'taken != "" and {compared}' if relation == "<" else compared
    return f"{name} {relation} {int(value)}"
