"""Runs the web app until it is stopped."""

import os
import re
import signal
import socket
import webbrowser
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread, get_native_id
from typing import Any

from solar.albums.report import GroupReport
from solar.errors import SolarError, optional
from solar.images import Roots, scan_roots
from solar.images.known_roots import confirm, confirmed_roots, shown_roots
from solar.index import Index, PhotoIndex
from solar.index.build import fill
from solar.index.index import engine_module, is_folder, report_place
from solar.index.report_file import Report
from solar.near_duplicates.report import DuplicateReport
from solar.ranking.verify import find_features
from solar.storage.folder_engine import finished
from solar.storage.protocol import NoIndexError
from solar.web.guard.access import networks
from solar.web.guard.rates import address_of
from solar.web.settings import WebSettings, home_of

Say = Callable[[str], None]
"""Called with a sentence for the terminal."""

# Not the app's own paths: a proxy may or may not remove the prefix.
_SUB_PATH = re.compile(r"(?!/(?:api|static|indexes)(?:/|$))(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
# Open connections, and the backlog: together fewer than the files of a process.
_CONNECTIONS, _BACKLOG = 512, 128

AHEAD = 5000
"""Photos of which keypoints are found before a search asks for them: up to 0.7 GB."""


def serve(
    addresses: str | Sequence[str],
    *,
    model: str | None = None,
    device: str | None = None,
    compare: Sequence[str] = (),
    roots: Sequence[str | Path] = (),
    host: str = "127.0.0.1",
    port: int = 8000,
    open_browser: bool = False,
    say: Say = lambda sentence: None,
    **settings: Any,
) -> None:
    """Open one or several indexes, and serve them until SIGINT or SIGTERM.

    The options are those of `solar serve`; `settings` are for `WebSettings`. A SolarError if there
    is no index, the port is taken, these settings would let strangers add photos, or the index
    names folders that this user has not confirmed, see `solar.images.known_roots`.
    """
    for module in ("fastapi", "python_multipart", "prometheus_client", "uvicorn"):
        uvicorn = optional(module, "web")
    from solar.web.app import create_site

    several = [addresses] if isinstance(addresses, str) else list(addresses)
    if len(several) > 1:
        refuse_single(model=model, compare_model=list(compare), **settings)
    wanted = WebSettings(name=collection_name(several[0]), device=device, **settings)
    if not _SUB_PATH.fullmatch(wanted.root_path):
        raise SolarError(
            f"`root_path={wanted.root_path}` is not a path, or is used by the app itself: write "
            "one such as /photos."
        )
    proxies = networks(wanted.proxies)
    check_exposure(host, wanted)
    with ExitStack() as opened:
        served: list[tuple[PhotoIndex, WebSettings]] = []
        for address in several:
            own = replace(
                wanted, name=collection_name(address), **found_reports(address, wanted, say)
            )
            index = Index.open(address, model=model, device=device)
            served.append((opened.enter_context(index), own))
        photos = [
            shown_roots(index.place, index.roots, photos=wanted.photos, given=roots)
            for index, _ in served
        ]
        models = dict(comparison(served[0][0], wanted, other, say) for other in compare)
        app = create_site(served, models)
        with _listening(host, port) as listening:
            shown = _shown(listening, host) + wanted.root_path.removeprefix("/")
            for number, ((index, own), known) in enumerate(zip(served, photos, strict=True)):
                page = shown.rstrip("/") + home_of(own.name) + "/" if number else shown
                say(f"{known or own.name}: {len(index):,} photos at {page}")
                if missing := photos_missing(known, own.name):
                    say(missing)
            if open_browser and not _open_page(shown):
                say("No browser could be opened.")
            say("Press Ctrl-C to stop.")
            config = uvicorn.Config(
                app,
                http="h11",
                ws="none",
                backlog=_BACKLOG,
                log_level="warning",
                server_header=False,
                proxy_headers=bool(proxies),
                forwarded_allow_ips=[str(network) for network in proxies],
                limit_concurrency=_CONNECTIONS,
                timeout_keep_alive=10,
                timeout_graceful_shutdown=5,
                h11_max_incomplete_event_size=2**14,
            )
            # uvicorn stops at either signal and raises it again, which is no failure.
            before = signal.signal(signal.SIGTERM, signal.default_int_handler)
            opened.callback(signal.signal, signal.SIGTERM, before)
            opened.callback(keypoints_ahead([index for index, _ in served]))
            with suppress(KeyboardInterrupt):
                uvicorn.Server(config).run([listening])


def keypoints_ahead(indexes: Sequence[PhotoIndex]) -> Callable[[], None]:
    """Find keypoints for first searches while nothing else is done; returns what stops it."""
    stopped = Event()

    def work() -> None:
        with suppress(OSError, AttributeError):  # Linux alone gives threads priorities
            os.setpriority(os.PRIO_PROCESS, get_native_id(), 19)
        for index in indexes:
            with suppress(SolarError, OSError):
                if not index.has_vectors or len(index) > AHEAD:
                    continue
                for _ in find_features(index.engine, threads=1):
                    if stopped.is_set():
                        return

    thread = Thread(target=work, daemon=True)
    thread.start()

    def stop() -> None:
        stopped.set()
        thread.join()

    return stop


def refuse_single(**given: Any) -> None:
    """Refuse options that apply to one index, if there are several."""
    for name in ("model", "compare_model", "photos", "duplicates", "groups"):
        if given.get(name):
            raise SolarError(
                f"`{name}=` applies to one index: leave it out, or serve only that index."
            )


def found_reports(address: str, settings: WebSettings, say: Say) -> dict[str, Any]:
    """Reports beside an index that were not given; unreadable ones are left out, which is said."""
    if not is_folder(address):
        return {}
    found = {}
    reports: dict[str, type[Report[Any]]] = {"duplicates": DuplicateReport, "groups": GroupReport}
    for name, report in reports.items():
        place = report_place(address, name)
        if getattr(settings, name) is not None or not place.is_file():
            continue
        try:
            for _ in report.read(place):
                pass
            found[name] = place
        except SolarError as error:
            say(f"Ignored: {error}")
    return found


def photos_missing(roots: Roots, name: str) -> str | None:
    """A message if photos of a collection cannot be read; None if all roots exist."""
    gone = [root.path for root in roots.roots if not Path(root.path).exists()]
    if roots and not gone:
        return None
    why = f"there is no {', '.join(gone)}" if roots else "the index does not know their folder"
    return (
        f"The photos of {name} cannot be read ({why}): pictures, matching and verification "
        "need them; name their folder with `photos=`."
    )


def _open_page(address: str) -> bool:
    try:
        browser = webbrowser.get()
        # A text browser would block the terminal and this server.
        return type(browser) is not webbrowser.GenericBrowser and browser.open(address)
    except webbrowser.Error:
        return False


def collection_name(address: str) -> str:
    """The name of the collection at an address, which may contain a password."""
    if is_folder(address):
        return Path(address).absolute().stem
    name: str = engine_module(address).index_name(address)
    return name


def check_exposure(host: str, settings: WebSettings) -> None:
    """Refuse settings that let everybody on a network change the collection."""
    if settings.token is not None and len(settings.token) < 8:
        raise SolarError("The token is too short: use at least 8 characters.")
    address = address_of(host)
    local = host == "localhost" if address is None else address.is_loopback
    where = "behind a proxy" if settings.proxies else "" if local else f"on {host}"
    if settings.writable and settings.token is None and where:
        raise SolarError(
            f"With `writable=True` {where}, anybody could add photos, or remove some: set a "
            "`token=` as well."
        )


def comparison(
    index: PhotoIndex, settings: WebSettings, other: str, say: Say = lambda sentence: None
) -> tuple[str, PhotoIndex]:
    """The name and the index of the same photos for another model, which may be made now."""
    from solar.web.service import model_name

    try:
        found = Index.open(other)
    except NoIndexError:
        found = _described(index, settings, other, say)
    return model_name(found), found


def _described(index: PhotoIndex, settings: WebSettings, model: str, say: Say) -> PhotoIndex:
    folder, known = index.engine.folder, index.engine.stamps()
    short = re.sub(r"[^\w.-]+", "-", Path(model).stem)
    if folder is not None:
        place = folder.with_name(f"{folder.stem}.{short}.solar")
        if finished(place):
            return Index.open(place, model=model)
        photos = scan_roots(index.roots.moved_to(settings.photos), known)
        # Only photos of the index are compared.
        photos = photos.select(n for n, name in enumerate(photos.names) if name in known)
    if folder is None or not photos:
        raise SolarError(
            f"The photos cannot be read to compute embeddings with {model}: build an index with "
            "`solar index build --model`, and give that index."
        )
    say(f"Describing {len(photos):,} photos with {model} → {place}")
    made = fill(place, photos, model=model)
    moved = settings.photos is not None
    confirm(made.place, made.roots if moved else confirmed_roots(index.place, made.roots))
    return made


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Where the protocol is named, asyncio sends at once; otherwise answers take 40 ms more.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen()  # the address that is printed can be visited
    except OSError as error:
        raise SolarError(
            f"Cannot listen on {host}:{port} ({error.strerror or error}): choose another `port=`, "
            "or 0 for a free one."
        ) from error
    return listening


def _shown(listening: socket.socket, host: str) -> str:
    port = listening.getsockname()[1]
    name = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"
