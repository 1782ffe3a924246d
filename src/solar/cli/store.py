"""`solar store`: inspect a store of embeddings."""

from pathlib import Path
from typing import Annotated

import typer

from solar.cli.help import Commands
from solar.cli.options import Json

app = Commands(help="Inspect a store of embeddings.")

StorePath = Annotated[
    Path, typer.Argument(metavar="STORE", help="A store made by `solar extract`.")
]


@app.command(epilog="Example: solar store info photos.store")
def info(store: StorePath, json: Json = False) -> None:
    """Show what a store contains and how it was made."""
    from solar.cli.printing import print_json, print_table
    from solar.describe.store import Store

    opened = Store.open(store, allow_partial=True)
    facts = {
        "store": str(store),
        "model": opened.model,
        "fingerprint": opened.fingerprint,
        "settings": opened.settings,
        "dim": opened.dim,
        "dtype": str(opened.dtype),
        "photos": len(opened),
        "failed": len(opened.failures),
        "finished": opened.complete,
        "roots": [root.path for root in opened.roots.roots],
    }
    if json:
        print_json(facts)
        return
    print_table(list(facts.items()))


@app.command(epilog="Example: solar store check photos.store")
def check(store: StorePath) -> None:
    """Recompute every checksum; exit code 1 if anything is wrong."""
    from solar.cli.printing import report_problems
    from solar.describe.store import Store

    opened = Store.open(store, allow_partial=True)
    report_problems(opened.check(), f"{len(opened):,} embeddings")
