"""Two photos matched keypoint by keypoint."""
