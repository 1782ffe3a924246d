"""Metadata of photos from a JSON Lines file: tags, times, positions, fields of one's own."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from solar.errors import SolarError
from solar.files import reading
from solar.images.exif import valid_position
from solar.storage.own_fields import own_fields

_KNOWN = frozenset({"path", "tags", "taken", "position", "camera"})  # not fields of one's own


def read_metadata(path: str | Path) -> dict[str, dict[str, Any]]:
    """Read a JSON Lines file of metadata, by photo.

    Each line has a `path`, and any of `tags`, `taken`, `position` (degrees north and east),
    `camera`, and own fields of any other names: texts, numbers, true or false; null is none.
    """
    known = {}
    with reading(path, "is not text in UTF-8: save it as that", UnicodeDecodeError):
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            facts = json.loads(line)
            details: dict[str, Any] = {}
            if "tags" in facts:
                details["tags"] = tuple(str(tag) for tag in facts["tags"])
            if facts.get("taken"):
                details["taken"] = datetime.fromisoformat(facts["taken"]).isoformat()
            if facts.get("position"):
                latitude, longitude = map(float, facts["position"])
                if not valid_position(latitude, longitude):
                    raise ValueError("no place on earth")
                details["position"] = latitude, longitude
            if facts.get("camera"):
                details["camera"] = str(facts["camera"])
            own = {name: value for name, value in facts.items() if name not in _KNOWN}
            known[str(facts["path"])] = details | {"fields": own_fields(own)}
        except SolarError as error:
            raise SolarError(f"Line {number} of {path}: {error}") from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise SolarError(
                f'Line {number} of {path} is not like {{"path": "a.jpg", "tags": ["night"], '
                '"taken": "2019-07-14T18:30:00", "position": [48.858, 2.294], "color": "red"}.'
            ) from error
    return known
