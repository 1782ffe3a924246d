"""Local features: keypoints, patch networks, learned local features, their cache."""
