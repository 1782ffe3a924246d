"""Networks on the model hub."""
