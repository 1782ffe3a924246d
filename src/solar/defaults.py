"""Defaults that packages and commands share; importing them takes no time."""

SIZE = 1024
"""Longer side in pixels that photos are reduced to."""

KEYPOINTS = 2048
"""Local features per photo."""

BATCH, BATCH_PIXELS = 32, 32 * 2**20
"""Most photos of one size, and pixels, in a forward pass."""

GPU_DECODES = False
"""Whether a GPU that describes photos decodes them, too."""
