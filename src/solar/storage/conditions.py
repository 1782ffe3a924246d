"""Conditions that photos must satisfy to be found, and how they are written."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

from solar.errors import SolarError
from solar.files import is_text
from solar.storage.geo import Area, parse_area
from solar.storage.own_fields import NAME, RESERVED, FieldValue, own_fields
from solar.storage.types import Photo

_TIME = re.compile(r"\d{4}(-\d{2}(-\d{2}([T ]\d{2}(:\d{2}(:\d{2})?)?)?)?)?")
_CONDITION = re.compile(rf"\s*({NAME})\s*(>=|<|=)\s*(.*?)\s*")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that a photo must satisfy to be found.

    `tag = x`: it has this tag. `path = x`: its path starts with x. `width`, `height` and `taken`
    are compared; a photo without a capture time fails. `near = x`: it was taken in this area; a
    photo without a position fails. Any other name is that of an own field: `color = red` takes the
    text, or what it is in JSON (`3`, `true`); `floor >= 3` and `floor < 3` compare numbers, and
    a photo without that field, or with another kind of value, fails.
    """

    field: str
    relation: Literal["=", ">=", "<"]
    value: str | int | float | Area

    @property
    def own(self) -> bool:
        """Whether it is about an own field."""
        return self.field not in RESERVED

    @property
    def choices(self) -> list[FieldValue]:
        """The values of an own field that satisfy `=`."""
        text, read = str(self.value), _in_json(str(self.value))
        return [text] if read is None else [text, read]

    def holds(self, photo: Photo) -> bool:
        """Whether a photo satisfies it: what engines must agree with."""
        if self.field == "tag":
            return self.value in photo.tags
        if self.field == "path":
            return photo.path.startswith(str(self.value))
        if isinstance(self.value, Area):
            return photo.position is not None and bool(self.value.holds(photo.position)[0])
        known: Any = photo.fields.get(self.field) if self.own else getattr(photo, self.field)
        if self.own and self.relation == "=":
            return (type(known), known) in [(type(value), value) for value in self.choices]
        if known is None or (self.own and type(known) not in (int, float)):
            return False
        return bool(known >= self.value if self.relation == ">=" else known < self.value)


Where: TypeAlias = tuple[Condition, ...]
"""Conditions that must all hold."""


def parse_where(
    conditions: str | Iterable[str | Condition] | Mapping[str, FieldValue] | None,
) -> Where:
    """Read conditions: `tag=night`, `path=rome/`, `width>=1024`, `taken<2019-07`, or a distance.

    That is `near=48.858,2.294,500m`: degrees north, degrees east, and metres or kilometres (`2km`).
    Own fields are compared as `color=red`, `floor>=3` or `floor<3`. `{"tag": "night"}` is the same
    as `tag=night`.
    """
    if isinstance(conditions, str):
        conditions = [conditions]
    elif isinstance(conditions, Mapping):
        conditions = [_equal(field, value) for field, value in conditions.items()]
    return tuple(c if isinstance(c, Condition) else _parse(c) for c in conditions or ())


def _parse(text: str) -> Condition:
    found = _CONDITION.fullmatch(text) if isinstance(text, str) and is_text(text) else None
    match found.groups() if found else ():
        case ("tag" | "path" as name, "=", str(value)) if value:
            return Condition(name, "=", value)
        case ("width" | "height" as name, ">=" | "<" as relation, str(value)) if _is_count(value):
            return Condition(name, relation, int(value))
        case ("taken", ">=" | "<" as relation, str(value)) if _is_time(value):
            return Condition("taken", relation, value.replace(" ", "T"))
        case ("near", "=", str(value)):
            return Condition("near", "=", parse_area(value))
        case ("taken", ">=" | "<", str(value)):
            raise SolarError(
                f"The condition {text!r} is not understood: write a time as 2019, 2019-07, "
                "2019-07-14 or 2019-07-14T18:30."
            )
        case (str(name), "=", str(value)) if name not in RESERVED and value and value[0] != "=":
            return Condition(name, "=", value)
        case (str(name), ">=" | "<" as relation, str(value)) if name not in RESERVED:
            number = _in_json(value)
            if isinstance(number, int | float) and not isinstance(number, bool):
                return Condition(name, relation, number)
    raise SolarError(
        f"The condition {text!r} is not understood: write tag=night, path=rome/, width>=1024, "
        "height<2000, taken>=2019-07-14, taken<2020, near=48.858,2.294,500m, or color=red, "
        "floor>=3 and floor<3 for your own fields."
    )


def as_text(value: FieldValue) -> str:
    """A value as conditions have it: `3`, `true`, `red`."""
    return value if isinstance(value, str) else json.dumps(value)


def _equal(field: str, value: object) -> str:
    if isinstance(value, str | bool | int | float):
        return f"{field}={as_text(value)}"
    raise SolarError(
        f"The condition {field!r}: {value!r} is not understood: give one text or number, or a list "
        "of conditions such as ['tag=night', 'tag=river']."
    )


def _in_json(text: str) -> FieldValue | None:
    """What a text is as JSON; None if that is no value of an own field."""
    try:
        return own_fields({"value": json.loads(text)}).get("value")
    except (ValueError, RecursionError):
        return None


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text + "0001-01-01T00:00:00"[len(text) :])
    except ValueError:
        return False
    return bool(_TIME.fullmatch(text))


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) < 19  # a 64-bit integer
