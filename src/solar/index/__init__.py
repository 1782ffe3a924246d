"""The collection: an index of photos, how it is filled, searched and exported."""

from solar.index.index import Index
from solar.index.photo_index import PhotoIndex

__all__ = ["Index", "PhotoIndex"]
