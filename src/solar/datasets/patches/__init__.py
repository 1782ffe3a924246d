"""Patches of 3-D points or keypoints: public sets and your own photos."""
