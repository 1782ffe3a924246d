"""Look at an index in a browser: the server, and the page in `static/`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

# The app's own libraries are an extra: without them only what needs them fails.
if TYPE_CHECKING:
    from solar.web.app import create_app as create_app
    from solar.web.settings import WebSettings as WebSettings
else:
    _HOMES = {
        "WebSettings": "solar.web.settings",
        "create_app": "solar.web.app",
    }
    __all__ = list(_HOMES)

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return __all__
