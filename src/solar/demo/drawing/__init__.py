"""How toy landmarks are drawn: parameters in, a photo out."""
