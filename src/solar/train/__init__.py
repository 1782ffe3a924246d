"""Training: recipes in, weights out."""
