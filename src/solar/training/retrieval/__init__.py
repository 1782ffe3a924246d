"""Training of networks for whole photos: tuples with mined negatives, or classes."""
