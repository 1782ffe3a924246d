"""The web app below a path of somebody's site: `https://example.org/photos/`."""

from starlette.responses import RedirectResponse, Response

from solar.web.bodies import Receive
from solar.web.middleware import App, Scope, Send


class SubPath:
    """Takes the path's prefix off a request, whether or not the proxy in front has done so."""

    def __init__(self, app: App, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered by the app, which knows nothing of the prefix."""
        path = scope.get("path", "")
        if self._prefix and path == self._prefix:
            # Without the slash the page's own files would be looked for one level too high.
            answer: Response = RedirectResponse(f"{self._prefix}/", 308)
            await answer(scope, receive, send)
            return
        if self._prefix and path.startswith(f"{self._prefix}/"):
            scope = {**scope, "path": path.removeprefix(self._prefix)}
        await self._app(scope, receive, send)
