"""A photo file becomes pixels: decoded, turned upright, cut to a box and shrunk."""

from solar.images.boxes import Box, crop, parse_box
from solar.images.decode import (
    MAX_PIXELS,
    DecodedImage,
    ImageError,
    Source,
    image_size,
    load,
    read_image,
)
from solar.images.resize import query_size, thumbnail, thumbnail_size
from solar.images.sources import Photos, find_photos, named_photos

__all__ = [
    "MAX_PIXELS",
    "Box",
    "DecodedImage",
    "ImageError",
    "Photos",
    "Source",
    "crop",
    "find_photos",
    "image_size",
    "load",
    "named_photos",
    "parse_box",
    "query_size",
    "read_image",
    "thumbnail",
    "thumbnail_size",
]
