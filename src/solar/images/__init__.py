"""A photo file becomes pixels: decoded, turned upright, cut to a box and shrunk."""

from solar.images.boxes import Box, crop, parse_box
from solar.images.decode import MAX_PIXELS, ImageError, Photo, Source, image_size, load, read_image
from solar.images.resize import query_size, thumbnail, thumbnail_size

__all__ = [
    "MAX_PIXELS",
    "Box",
    "ImageError",
    "Photo",
    "Source",
    "crop",
    "image_size",
    "load",
    "parse_box",
    "query_size",
    "read_image",
    "thumbnail",
    "thumbnail_size",
]
