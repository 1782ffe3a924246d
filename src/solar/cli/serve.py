"""`solar serve`: an index in the browser."""

from pathlib import Path
from typing import Annotated

import typer

from solar.cli.completion import photo_models
from solar.cli.options import IndexAddress, IndexModel, MovedPhotos, SearchDevice, ShownRoots
from solar.cli.printing import output, say
from solar.web.settings import WebSettings

EXAMPLE = "Example: solar serve photos.solar --port 8000"


def serve(
    index: IndexAddress,
    model: IndexModel = None,
    compare_model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help="Another model to compare with, or an index of the same photos made with one. "
            "A model describes all photos once, before the first start.",
            autocompletion=photo_models,
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    photos: MovedPhotos = None,
    root: ShownRoots = None,
    duplicates: Annotated[
        Path | None,
        typer.Option(
            metavar="REPORT",
            help="A report of `solar duplicates` to go through on the page.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        bool | None,
        typer.Option(
            "--labels/--no-labels",
            help="Whether folders say what photos show; by default where they look like it.",
        ),
    ] = None,
    writable: Annotated[
        bool, typer.Option(help="Let visitors add photos and update the collection.")
    ] = False,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="SOLAR_TOKEN", help="Access token required from visitors.", show_default=False
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name that visitors may reach this server by.")
    ] = None,
    root_path: Annotated[
        str,
        typer.Option(
            metavar="PATH", help="The path of this app on a larger site, such as /photos."
        ),
    ] = WebSettings.root_path,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="A reverse proxy, or a network of them, whose X-Forwarded-For is believed.",
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0, help="Requests per second and visitor; 0 for any number.")
    ] = WebSettings.rate,
    queue: Annotated[int, typer.Option(min=1, help="Searches that may wait.")] = WebSettings.queue,
    device: SearchDevice = None,
    open_browser: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
) -> None:
    """Open an index in the browser.

    Search with a photo or a box in it, see attention maps and matching points,
    compare rankings, browse a 2-D map of the collection, go through duplicates.
    """
    from solar.web.serving import serve as run

    run(
        index,
        model=model,
        device=device,
        compare=compare_model or [],
        roots=root or [],
        host=host,
        port=port,
        open_browser=open_browser,
        say=lambda sentence: say(sentence, to=output()),
        photos=photos,
        duplicates=duplicates,
        labels=labels,
        writable=writable,
        token=token or None,  # an empty variable is none
        hosts=tuple(allow_host or ()),
        root_path=root_path.rstrip("/"),
        proxies=tuple(trusted_proxy or ()),
        rate=rate,
        burst=max(10 * rate, 1.0),
        queue=queue,
    )
