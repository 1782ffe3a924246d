"""OpenCV, where it is installed: keypoints, robust geometry, lines in pictures."""

from functools import cache
from importlib import import_module
from typing import Any

from solar.errors import SolarError


@cache
def opencv() -> Any:
    """The cv2 module; a SolarError where it is not installed."""
    try:
        return import_module("cv2")
    except ImportError as error:
        raise SolarError(
            "Local features need OpenCV: pip install opencv-python-headless."
        ) from error
