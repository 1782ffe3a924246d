"""Descriptors become answers: an index of photos, its engines, and better rankings."""

from solar.search.conditions import Condition, Where, parse_where
from solar.search.index import Index, need_vectors
from solar.search.parts import Part
from solar.search.photo_index import PhotoIndex
from solar.search.storage_protocol import Engine
from solar.search.types import DescriptorSpec, Hit, Photo

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
