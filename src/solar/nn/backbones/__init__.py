"""The backbones, in one table."""
