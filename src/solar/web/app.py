"""The web app: a page, an API, and the layers around them."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from solar import __version__
from solar.errors import SolarError
from solar.search import PhotoIndex
from solar.web.api import create_router
from solar.web.docs_page import docs_page
from solar.web.index_paths import IndexPaths, settings_of_several
from solar.web.middleware import Admission, Guard
from solar.web.problems import WebError
from solar.web.resources import Resources
from solar.web.schemas import Health
from solar.web.service import Service
from solar.web.settings import WebSettings
from solar.web.sub_path import SubPath
from solar.web.thread_pools import keep_tidy

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".webmanifest": "application/manifest+json",
}

_READ = ["GET", "HEAD"]


def create_app(
    index: PhotoIndex,
    *,
    models: Mapping[str, PhotoIndex] | None = None,
    settings: WebSettings | None = None,
) -> FastAPI:
    """Make the web app of an index.

    Args:
        index: The index to serve; keep it open as long as the app runs.
        models: Indexes of the same photos built with other models, by name, to compare with.
        settings: Settings of the app.

    Returns:
        An ASGI app; `app.state.service` is the service behind it.

    Raises:
        SolarError: The app is writable, but there is no folder to add photos to, or the index is
            an ASMK index.
    """
    return create_site([(index, settings or WebSettings())], models)


def create_site(
    indexes: Sequence[tuple[PhotoIndex, WebSettings]],
    models: Mapping[str, PhotoIndex] | None = None,
) -> FastAPI:
    """Make the web app of several indexes, each below `/indexes/NAME/`, the first also at `/`.

    Args:
        indexes: Indexes with their settings, which differ in names, reports and folders of photos.
        models: As for `create_app`, for the first index.

    Returns:
        The app of the first index, which forwards requests for the others.

    Raises:
        SolarError: See `create_app`; or two indexes have the same name.
    """
    settings = settings_of_several([one for _, one in indexes])
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
        for service in services:
            service.adder.resume()
        yield
        for task in tasks:
            task.cancel()
        jobs = [job for service in services for job in (service.adder, service.updater)]
        await asyncio.gather(*(job.close() for job in jobs))
        await asyncio.to_thread(resources.close)
        for service in services:
            service.close()

    def ready() -> bool:
        return all(service.ready for service in services)

    first, *others = (_index_app(one, resources.admission, lifespan, ready) for one in services)
    apps = {service.settings.name: app for service, app in zip(services[1:], others, strict=True)}
    if apps:
        first.add_middleware(
            IndexPaths, apps=apps, first=settings[0].name, root_path=settings[0].root_path
        )
    first.add_middleware(SubPath, prefix=settings[0].root_path)
    return first


def _index_app(
    service: Service, admission: Admission, lifespan: Any, ready: Callable[[], bool]
) -> FastAPI:
    """The app of one index; whether it is reached below a path is no matter to it."""
    settings = service.settings
    path = settings.root_path + settings.home
    app = FastAPI(
        title="solar",
        version=__version__,
        summary="Find the same place or object again in a collection of photos.",
        lifespan=lifespan,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        servers=[{"url": path}] if path else None,
    )
    app.state.service = service
    app.include_router(create_router(service))
    _add_pages(app, service, ready)
    _add_errors(app, service)
    app.add_middleware(
        Guard,
        settings=settings,
        keys=service.keys,
        metrics=service.metrics,
        admission=admission,
    )
    return app


def _add_pages(app: FastAPI, service: Service, ready: Callable[[], bool]) -> None:
    """What is no part of the API: the page, and how the server is."""
    files = _static_files(service.settings.static)

    @app.api_route("/", methods=_READ, include_in_schema=False)
    async def page(request: Request) -> Response:
        return _file(files, "index.html", request)

    @app.api_route("/static/{name:path}", methods=_READ, include_in_schema=False)
    async def static(name: str, request: Request) -> Response:
        return _file(files, name, request)

    @app.api_route("/docs", methods=_READ, include_in_schema=False)
    async def docs() -> Response:
        return Response(docs_page(app.openapi()), media_type="text/html")

    @app.get("/healthz")
    async def healthz() -> Health:
        """Report that the server is running."""
        return Health(status="ok")

    @app.get("/readyz", responses={503: {"model": Health}})
    async def readyz() -> JSONResponse:
        """Report whether the networks are loaded."""
        good = ready()
        return JSONResponse({"status": "ok" if good else "starting"}, 200 if good else 503)

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Give numbers for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")


def _static_files(folder: Path) -> dict[str, Path]:
    """The page's files, by name: a request can name one of these and nothing else."""
    return {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.suffix in _TYPES and path.is_file()
    }


def _file(files: dict[str, Path], name: str, request: Request) -> Response:
    if name not in files:
        raise WebError(404, "There is no such page.")
    content = files[name].read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_TYPES[files[name].suffix], headers=headers)


def _add_errors(app: FastAPI, service: Service) -> None:
    """Every failure becomes `{"error": "One sentence."}`."""

    @app.exception_handler(WebError)
    async def _(_: Request, error: WebError) -> JSONResponse:
        return JSONResponse({"error": error.sentence}, error.status, error.headers)

    @app.exception_handler(SolarError)
    async def _(_: Request, error: SolarError) -> JSONResponse:
        return JSONResponse({"error": service.told(error)}, 422)

    @app.exception_handler(RequestValidationError)
    async def _(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse({"error": _explained(error.errors())}, 422)

    @app.exception_handler(HTTPException)
    async def _(_: Request, error: HTTPException) -> JSONResponse:
        sentences = {404: "There is no such page.", 405: "This address does not take that method."}
        sentence = sentences.get(error.status_code, "The request is not understood.")
        return JSONResponse({"error": sentence}, error.status_code, error.headers)


def _explained(problems: Any) -> str:
    """The first thing that is wrong with a request."""
    first = problems[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    text = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{where or 'The request'}: {text[0].lower()}{text[1:]}."
