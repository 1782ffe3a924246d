"""OpenCV, imported when it is first needed: `import solar.index` stays quick."""

from importlib import import_module
from typing import Any


def opencv() -> Any:
    """The cv2 module, whose types are incomplete."""
    return import_module("cv2")
