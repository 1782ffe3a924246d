"""Every sentence that the program says to somebody whose mistake it was, from the source."""

from __future__ import annotations


def page() -> str:
    """The sentences by topic, as Markdown."""
    return ""
