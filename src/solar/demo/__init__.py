"""A first look without photos of one's own: generated landmarks, and small indexes to search."""
