"""Photos with labels and pairs, as retrieval networks are trained on."""
