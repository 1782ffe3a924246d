"""A demo without the user's photos: generated landmarks, and small indexes to search."""
