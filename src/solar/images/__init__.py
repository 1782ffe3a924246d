"""A photo file becomes pixels: decoded, turned upright, cut to a box and shrunk."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solar.images.boxes import Box as Box
    from solar.images.boxes import crop as crop
    from solar.images.boxes import parse_box as parse_box
    from solar.images.decode import MAX_PIXELS as MAX_PIXELS
    from solar.images.decode import DecodedImage as DecodedImage
    from solar.images.decode import check_visible as check_visible
    from solar.images.decode import image_size as image_size
    from solar.images.decode import load as load
    from solar.images.decode import read_image as read_image
    from solar.images.opening import ImageError as ImageError
    from solar.images.opening import Source as Source
    from solar.images.roots import Root as Root
    from solar.images.roots import Roots as Roots
    from solar.images.scan import RAW_SUFFIXES as RAW_SUFFIXES
    from solar.images.sources import Photos as Photos
    from solar.images.sources import Stamp as Stamp
    from solar.images.sources import collect as collect
    from solar.images.sources import find_photos as find_photos
    from solar.images.sources import find_sources as find_sources
    from solar.images.sources import scan_roots as scan_roots
else:
    _HOMES = {
        "Box": "solar.images.boxes",
        "DecodedImage": "solar.images.decode",
        "ImageError": "solar.images.opening",
        "MAX_PIXELS": "solar.images.decode",
        "Photos": "solar.images.sources",
        "RAW_SUFFIXES": "solar.images.scan",
        "Root": "solar.images.roots",
        "Roots": "solar.images.roots",
        "Source": "solar.images.opening",
        "Stamp": "solar.images.sources",
        "check_visible": "solar.images.decode",
        "collect": "solar.images.sources",
        "crop": "solar.images.boxes",
        "find_photos": "solar.images.sources",
        "find_sources": "solar.images.sources",
        "image_size": "solar.images.decode",
        "load": "solar.images.decode",
        "parse_box": "solar.images.boxes",
        "read_image": "solar.images.decode",
        "scan_roots": "solar.images.sources",
    }
    __all__ = list(_HOMES)

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return __all__
