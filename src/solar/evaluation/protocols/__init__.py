"""One module per evaluation protocol."""
