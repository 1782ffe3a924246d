"""The bundled models: for each its weights, its card, and its facts and figures.

`solar.load("NAME")` reads `NAME.safetensors`; `NAME.md` is its card, and `NAME.json` has its facts
and figures, which `benchmarks/cards.py` measures.
"""

import json
from pathlib import Path
from typing import Any

from solar.errors import SolarError

DEFAULT = "solar-lite0"
"""The model used where none is named."""

DEFAULT_LOCAL = "solar-local-345"
"""The same for patches."""

TEACHER = "solar-r18"
"""What the default model learnt from, beside networks of ImageNet: it comes with a checkout only,
not with a wheel."""

NAMES = (DEFAULT, TEACHER, "how-r18-small", DEFAULT_LOCAL, "solar-local-small", "solar-local-none")

FOLDER = Path(__file__).parent


def facts(name: str) -> dict[str, Any]:
    """A bundled model's facts, hash and figures; a SolarError if this installation lacks it."""
    try:
        found: dict[str, Any] = json.loads(_text(f"{name}.json"))
    except (OSError, ValueError) as error:
        raise lacking(name) from error
    return found


def probabilities() -> dict[str, dict[str, Any]]:
    """The settings of `solar.ranking.calibration` by model; empty if they are missing."""
    try:
        found: dict[str, dict[str, Any]] = json.loads(_text("probabilities.json"))
    except (OSError, ValueError):
        return {}
    return found


def card(name: str) -> str:
    """A bundled model's card, as Markdown; a SolarError if this installation lacks it."""
    try:
        return _text(f"{name}.md")
    except OSError as error:
        raise lacking(name) from error


def _text(file: str) -> str:
    return (FOLDER / file).read_text(encoding="utf-8")


def lacking(name: str) -> SolarError:
    """The error for a bundled model that this installation lacks."""
    if name == TEACHER:
        return SolarError(
            f"{name} comes with a checkout of solar's repository only, not with a wheel."
        )
    return SolarError(
        f"{name} should have come with solar, but {FOLDER} lacks it: install solar again, "
        "from a complete wheel or checkout."
    )
