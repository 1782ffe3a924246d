"""The operations of the web app, as JSON under /api/v1."""
