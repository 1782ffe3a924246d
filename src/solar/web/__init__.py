"""Look at an index in a browser: the server, and the page in `static/`."""

from typing import TYPE_CHECKING

from solar.lazy import lazy_exports

# The app's own libraries are an extra: without them only what needs them fails.
if TYPE_CHECKING:
    from solar.web.app import create_app as create_app
    from solar.web.settings import WebSettings as WebSettings
else:
    __getattr__, __dir__, __all__ = lazy_exports(__spec__)
