"""Descriptors become answers: an index of photos, its engines, and better rankings."""

from solar.search.engine import Condition, DescriptorSpec, Engine, Hit, Photo, Where, parse_where
from solar.search.index import Index

__all__ = ["Condition", "DescriptorSpec", "Engine", "Hit", "Index", "Photo", "Where", "parse_where"]
