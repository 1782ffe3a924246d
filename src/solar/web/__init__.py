"""Look at an index in a browser: the server, and the page in `static/`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solar.web.app import create_app
    from solar.web.settings import WebSettings

__all__ = ["WebSettings", "create_app"]

# The app's own libraries are an extra: without them only what needs them fails.
_HOMES = {"WebSettings": "solar.web.settings", "create_app": "solar.web.app"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'solar.web' has no attribute {name!r}")
