"""A search's results, and the methods that rank them again."""
