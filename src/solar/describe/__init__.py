"""A folder of photos becomes a store of descriptors."""
