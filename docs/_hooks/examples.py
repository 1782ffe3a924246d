"""Lets the reference show an `Example:` of a docstring as code, as it does `Examples:`."""

import re
from typing import Any

import griffe


class Examples(griffe.Extension):
    """Renames the section before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Griffe has read an object."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
