"""Vectors and the facts of their photos: in a folder, on a GPU, in Milvus; nearest rows."""
