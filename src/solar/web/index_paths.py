"""Several indexes in one server: each has its page and its API below `/indexes/NAME/`.

The first is at the root of the server as well, where a server of one index has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from starlette.responses import RedirectResponse

from solar.errors import SolarError
from solar.web.bodies import Receive
from solar.web.middleware import INDEXES, App, Scope, Send
from solar.web.schemas import IndexLink
from solar.web.settings import WebSettings


def home_of(name: str) -> str:
    """The path of an index, as it stands in an address."""
    return INDEXES + quote(name, safe="")


def settings_of_several(given: Sequence[WebSettings]) -> list[WebSettings]:
    """The settings of each index of a server; those of one alone stay as they are.

    The memory for pictures, attention maps and explanations is divided among them; matches, vectors
    and rankings are kept by each, uploads by all together. A SolarError if two have the same name.
    """
    if len(given) == 1:
        return list(given)
    names = tuple(one.name for one in given)
    for name in names:
        if names.count(name) > 1:
            raise SolarError(
                f"Two indexes are called {name!r}: rename one, because the page shows their names."
            )
    return [
        replace(
            one,
            home=home_of(one.name) if number else "",
            indexes=names,
            picture_bytes=one.picture_bytes // len(given),
            attention_bytes=one.attention_bytes // len(given),
            why_bytes=one.why_bytes // len(given),
        )
        for number, one in enumerate(given)
    ]


def index_links(settings: WebSettings) -> list[IndexLink]:
    """All indexes of a server; none where there is but one.

    The first is at the root, where visitors begin: what a browser keeps belongs to one address.
    """
    homes = ["" if number == 0 else home_of(name) for number, name in enumerate(settings.indexes)]
    return [
        IndexLink(name=name, address=f"{settings.root_path}{home}/")
        for name, home in zip(settings.indexes, homes, strict=True)
    ]


class IndexPaths:
    """Hands requests below `/indexes/NAME/` to the app of that index, without this prefix.

    Args:
        app: That of the first index, which also gets what is below no such path.
        apps: Those of the others, by name.
        first: The name of the first.
        root_path: As for `WebSettings`.
    """

    def __init__(self, app: App, apps: Mapping[str, App], first: str, root_path: str) -> None:
        self._app, self._root_path = app, root_path
        self._apps = {**apps, first: app}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered."""
        path = scope.get("path", "")
        name, slash, rest = path.removeprefix(INDEXES).partition("/")
        if not path.startswith(INDEXES) or name not in self._apps:
            await self._app(scope, receive, send)
        elif slash:
            await self._apps[name]({**scope, "path": f"/{rest}"}, receive, send)
        else:  # without the slash the page's own files would be looked for one level too high
            moved = RedirectResponse(f"{self._root_path}{home_of(name)}/", 308)
            await moved(scope, receive, send)
