"""Search: from descriptors to ranked photos."""
