"""Descriptors become answers: an index of photos, its engines, and better rankings."""

from solar.search.engine import Condition, DescriptorSpec, Engine, Hit, Photo, Where, parse_where
from solar.search.index import Index, need_vectors
from solar.search.parts import Part
from solar.search.photo_index import PhotoIndex

__all__ = [
    "Condition",
    "DescriptorSpec",
    "Engine",
    "Hit",
    "Index",
    "Part",
    "Photo",
    "PhotoIndex",
    "Where",
    "need_vectors",
    "parse_where",
]
