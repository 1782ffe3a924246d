"""Look at an index in a browser: the server, and the page in `static/`."""

from typing import TYPE_CHECKING

from solar.lazy import on_first_use

# The app's own libraries are an extra: without them only what needs them fails.
if TYPE_CHECKING:
    from solar.web.app import create_app as create_app
    from solar.web.settings import WebSettings as WebSettings
else:
    __all__, __getattr__, __dir__ = on_first_use(
        __name__,
        {
            "solar.web.app": "create_app",
            "solar.web.settings": "WebSettings",
        },
    )
