"""solar: find the same place or object again in millions of photos."""

__version__ = "0.1.0"
