"""Training of patch networks."""
