"""Pairs of photos for structure from motion, and COLMAP."""
