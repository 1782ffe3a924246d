"""How much of a photo the patch of a keypoint shows: the same in training, benchmarks and use."""

REGION = 6.0
"""Side of a patch in sizes (diameters) of its keypoint: what a SIFT descriptor covers."""

SMALLEST = 20.0
"""Side of a patch at least, in pixels."""
