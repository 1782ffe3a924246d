"""Access, rates and limits of requests."""
