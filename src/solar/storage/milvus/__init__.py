"""A collection on a Milvus server."""
