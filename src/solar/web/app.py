"""The web app: a page, an API, and the layers around them."""

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from solar import __version__
from solar.errors import SolarError
from solar.index import PhotoIndex
from solar.web.api.routes import create_router
from solar.web.guard.middleware import Guard
from solar.web.guard.rates import Rates
from solar.web.guard.thread_pools import keep_tidy
from solar.web.problems import WebError, refusal
from solar.web.service import Resources, Service
from solar.web.settings import WebSettings, home_of

mimetypes.add_type("text/javascript", ".js")  # not on all systems, and browsers insist on it


def create_app(
    index: PhotoIndex,
    *,
    models: Mapping[str, PhotoIndex] | None = None,
    settings: WebSettings | None = None,
) -> FastAPI:
    """Make the web app of an index.

    The index must stay open as long as the app runs; `models` are indexes of the same photos by
    the names of other models, to compare with. `app.state.service` is the service behind it.
    A SolarError if the app is writable, but there is no folder to add photos to.
    """
    return create_site([(index, settings or WebSettings())], models)


def create_site(
    indexes: Sequence[tuple[PhotoIndex, WebSettings]],
    models: Mapping[str, PhotoIndex] | None = None,
) -> FastAPI:
    """Make the web app of several indexes, each below `/indexes/NAME/`, the first also at `/`.

    Their settings differ in names, reports and folders of photos; `models` are for the first index.
    `app.state.services` has the services by the name of the index. A SolarError as for
    `create_app`, or if two indexes have the same name.
    """
    settings = _settings_of_several([one for _, one in indexes])
    resources = Resources(settings[0])
    services = [
        Service(index, None if number else models, own, resources)
        for number, ((index, _), own) in enumerate(zip(indexes, settings, strict=True))
    ]

    async def opened() -> None:
        for service in services:
            await service.open()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(work) for work in (opened(), keep_tidy())]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*(service.jobs.close() for service in services))
        await asyncio.to_thread(resources.close)

    def ready() -> bool:
        return all(service.ready for service in services)

    apps = [_index_app(service, resources.rates, ready) for service in services]
    site = FastAPI(
        lifespan=lifespan, openapi_url=None, routes=_routes(settings, apps), redirect_slashes=False
    )
    site.router.default = apps[0]
    site.state.service = services[0]
    site.state.services = {service.settings.name: service for service in services}
    return site


def _settings_of_several(given: Sequence[WebSettings]) -> list[WebSettings]:
    """The settings of each index of a server; those of one alone stay as they are.

    The memory for pictures, attention maps and explanations is divided among them; matches, vectors
    and rankings are kept by each, uploads by all together.
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


def _routes(settings: Sequence[WebSettings], apps: Sequence[FastAPI]) -> list[BaseRoute]:
    """Every index at its path, with and without `root_path`, which a proxy may have removed."""
    root = settings[0].root_path
    homes = {home_of(one.name): app for one, app in zip(settings, apps, strict=True)}
    homes = (homes if len(apps) > 1 else {}) | {"": apps[0]}
    routes: list[BaseRoute] = []
    for prefix in dict.fromkeys((root, "")):
        for home, app in homes.items():
            if path := prefix + unquote(home):  # below none it is the site's default
                # Without the slash the page's own files would be looked for one level too high.
                routes += [Route(path, RedirectResponse(f"{root}{home}/", 308)), Mount(path, app)]
    return routes


def _index_app(service: Service, rates: Rates, ready: Callable[[], bool]) -> FastAPI:
    settings = service.settings
    path = settings.root_path + settings.home
    app = FastAPI(
        title="solar",
        version=__version__,
        summary="Find the same place or object again in a collection of photos.",
        openapi_url="/api/v1/openapi.json",
        # FastAPI's pages load their scripts from elsewhere, which our policy forbids.
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        servers=[{"url": path}] if path else None,
        root_path_in_servers=False,
    )
    app.include_router(create_router(service))
    _add_pages(app, service, ready)
    _add_errors(app, service)
    app.add_middleware(
        Guard, settings=settings, keys=service.keys, metrics=service.metrics, rates=rates
    )
    return app


class _PageFiles(StaticFiles):
    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"  # ask every time whether it has changed
        return response


def _add_pages(app: FastAPI, service: Service, ready: Callable[[], bool]) -> None:
    files = _PageFiles(directory=Path(__file__).parent / "static")
    app.mount("/static", files)

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    async def page(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Report that the server is running."""
        return {"status": "ok"}

    @app.get("/readyz", responses={503: {"description": "Not yet."}})
    async def readyz() -> JSONResponse:
        """Report whether the networks are loaded."""
        good = ready()
        return JSONResponse({"status": "ok" if good else "starting"}, 200 if good else 503)

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Give numbers for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")


def _add_errors(app: FastAPI, service: Service) -> None:
    """Every failure becomes `{"error": "One sentence."}`."""

    @app.exception_handler(SolarError)
    async def _(_: Request, error: SolarError) -> JSONResponse:
        return refusal(422, service.told(error))

    @app.exception_handler(RequestValidationError)
    async def _(_: Request, error: RequestValidationError) -> JSONResponse:
        return refusal(422, _explained(error.errors()))

    @app.exception_handler(HTTPException)
    async def _(_: Request, error: HTTPException) -> JSONResponse:
        sentences = {404: "There is no such page.", 405: "This address does not take that method."}
        sentence = sentences.get(error.status_code, "The request is not understood.")
        told = str(error) if isinstance(error, WebError) else sentence
        return refusal(error.status_code, told, error.headers)


def _explained(problems: Any) -> str:
    first = problems[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    text = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{where or 'The request'}: {text[0].lower()}{text[1:]}."
