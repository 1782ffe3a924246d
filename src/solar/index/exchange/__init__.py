"""Embeddings in other tools' files: Parquet, and HDF5 as hloc writes it."""
