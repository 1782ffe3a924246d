"""Descriptors become answers: an index of photos, its engines, and better rankings."""

from solar.search.engine import Condition, Engine, Hit, Made, Photo, Where, parse_where
from solar.search.index import Index

__all__ = ["Condition", "Engine", "Hit", "Index", "Made", "Photo", "Where", "parse_where"]
