"""Groups of photos that show the same place."""
