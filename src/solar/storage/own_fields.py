"""The own fields of a photo: further facts that a user has of it, by names of their choice."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from solar.errors import SolarError
from solar.files import is_text

FieldValue: TypeAlias = str | int | float | bool

NAME = r'[^\s<>=!"\\\[\]](?:[^\x00-\x1f<>=!"\\\[\]]{0,62}[^\s<>=!"\\\[\]])?'
"""What a name may be: up to 64 letters, and nothing that ends it in a condition or an engine."""

RESERVED = frozenset(
    {
        *("path", "width", "height", "tag", "tags", "taken", "stamp", "position", "near", "camera"),
        *("fields", "rank", "absolute", "score", "probability"),
        *("inliers", "same_scene", "threshold"),
    }
)
"""What photos, hits and conditions call their own facts, also as columns of a table of hits."""
_EXACT = 2**53  # up to here, a float64 holds every whole number
_BYTES = 16_384  # of all fields of a photo, as JSON


def own_fields(given: Mapping[str, Any]) -> dict[str, FieldValue]:
    """Own fields as engines keep them: those that are None are left out, and 3.0 becomes 3.

    A SolarError names the first that cannot be kept: it has another name or value than allowed, or
    all together are too long.
    """
    fields = {name: _plain(name, value) for name, value in given.items() if value is not None}
    for name in given:
        if not isinstance(name, str) or not re.fullmatch(NAME, name) or not is_text(name):
            raise _refused(name, 'a name has up to 64 letters, none of them < > = ! " \\ [ or ]')
        if name in RESERVED:
            raise _refused(name, "that is the name of another fact; choose another one")
    if len(as_json(fields).encode()) > _BYTES:
        raise _refused(
            max(fields, key=lambda name: len(str(fields[name]))),
            f"all fields of a photo have {_BYTES:,} bytes at most",
        )
    return fields


def as_json(value: FieldValue | Mapping[str, FieldValue]) -> str:
    """A value, or all fields of a photo, as JSON; equal values have the same."""
    return json.dumps(value, ensure_ascii=False)


def _plain(name: object, value: object) -> FieldValue:
    if isinstance(value, bool) or (isinstance(value, str) and is_text(value)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if isinstance(value, int) and abs(value) <= _EXACT:
        return value
    raise _refused(
        name, f"a value is a text, a number (whole ones up to {_EXACT:,}), true, false or null"
    )


def _refused(name: object, why: str) -> SolarError:
    return SolarError(f"The field {str(name)[:80]!r} cannot be kept: {why}.")
