"""The photos that training and evaluation read, and the ones that solar draws for itself."""
