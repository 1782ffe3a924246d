"""ASMK*: an index that compares photos by their local features."""
