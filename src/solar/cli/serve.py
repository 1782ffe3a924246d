"""`solar serve`: an index in the browser."""

from pathlib import Path
from typing import Annotated

import typer

from solar.cli.completion import photo_models
from solar.cli.options import AllowedRoots, Device, Model, ServedPhotos
from solar.cli.printing import show
from solar.web.settings import WebSettings

EXAMPLE = "Example: solar serve photos.solar --port 8000"


def serve(
    index: Annotated[list[str], typer.Argument(metavar="INDEX")],
    model: Model = None,
    compare_model: Annotated[
        list[str] | None, typer.Option(metavar="MODEL", autocompletion=photo_models)
    ] = None,
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    photos: ServedPhotos = None,
    roots: AllowedRoots = None,
    duplicates: Annotated[Path | None, typer.Option(metavar="REPORT", show_default=False)] = None,
    groups: Annotated[Path | None, typer.Option(metavar="FILE", show_default=False)] = None,
    labels: Annotated[bool | None, typer.Option("--folder-labels/--no-folder-labels")] = None,
    writable: Annotated[bool, typer.Option()] = False,
    originals: Annotated[bool, typer.Option()] = False,
    tiles: Annotated[str | None, typer.Option(metavar="URL")] = None,
    tiles_attribution: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    token: Annotated[str | None, typer.Option(envvar="SOLAR_TOKEN", show_default=False)] = None,
    allow_host: list[str] | None = None,
    root_path: Annotated[str, typer.Option(metavar="PATH")] = WebSettings.root_path,
    proxies: Annotated[list[str] | None, typer.Option("--trusted-proxy", metavar="ADDRESS")] = None,
    rate: Annotated[float, typer.Option(min=0)] = WebSettings.rate,
    queue: Annotated[int, typer.Option(min=1)] = WebSettings.queue,
    device: Device = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open")] = False,
) -> None:
    """Serve one or more indexes as a web app.

    Search with a photo or a box in it, see attention maps and matching points,
    compare rankings, browse a 2-D map of the collection, review duplicates.

    Options:
        index: A folder, or milvus://host:port/collection; several share one server.
        compare_model: Another model to compare with, or an index of the same photos built with it.
            For a new model, the embeddings of all photos are computed first.
        host: The address to listen on.
        port: Port to listen on; 0 picks a free one.
        duplicates: Report of `solar duplicates` to review; default: photos.duplicates.json beside
            photos.solar, if it exists.
        groups: Albums of `solar groups`; default: photos.groups.json beside photos.solar, if it
            exists.
        labels: Whether folder names are labels; auto-detected by default.
        writable: Let visitors add photos, remove photos from the index, and update it.
        originals: Let visitors download the files themselves, with their EXIF.
        tiles: Address of map tiles for the map of the world, with {z}, {x} and {y}, such as
            https://tiles.example.org/{z}/{x}/{y}.png; default: a plain outline.
        tiles_attribution: Whom the map credits for the tiles; required with --tiles.
        token: Access token required from visitors.
        allow_host: A host name that this server answers to; repeatable.
        root_path: URL path that the app is served under, such as /photos.
        proxies: Address or network of a reverse proxy whose X-Forwarded-For is trusted.
        rate: Requests per second per visitor; 0 for no limit.
        queue: Maximum number of waiting searches.
        open_browser: Open the page in a browser.
    """
    from solar.web.serving import serve as run

    run(
        index,
        model=model,
        device=device,
        compare=compare_model or [],
        roots=roots or [],
        host=host,
        port=port,
        open_browser=open_browser,
        say=show,
        photos=photos,
        duplicates=duplicates,
        groups=groups,
        labels=labels,
        writable=writable,
        originals=originals,
        tiles=tiles,
        tiles_attribution=tiles_attribution,
        token=token or None,  # an empty variable is none
        hosts=tuple(allow_host or ()),
        root_path=root_path.rstrip("/"),
        proxies=tuple(proxies or ()),
        rate=rate,
        queue=queue,
    )
