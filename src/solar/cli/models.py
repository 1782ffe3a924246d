"""`solar models`: models that can be loaded by name."""

from dataclasses import asdict
from typing import Annotated

import typer

from solar import weights
from solar.cli.completion import any_models
from solar.cli.options import Json
from solar.cli.printing import output, print_json, print_table, show
from solar.errors import SolarError
from solar.files import cache_directory
from solar.models import zoo
from solar.models.zoo import NamedModel

EXAMPLE = "Example: solar models solar-lite0"

_DESCRIBING = ("retrieval", "patches", "local")


def models(
    name: Annotated[str | None, typer.Argument(metavar="MODEL", autocompletion=any_models)] = None,
    task: str | None = None,
    every: Annotated[bool, typer.Option("--all")] = False,
    json: Json = False,
) -> None:
    """List bundled and downloadable models with their scores.

    Options:
        name: Show one model in detail; for a bundled model, its card.
        task: Only retrieval, patches, local, backbone or whitening.
        every: Include backbones and whitenings of older networks, and more columns.
    """
    if name is not None:
        entries = [zoo.find(name)]
    else:
        entries = [entry for entry in zoo.models() if task in (None, entry.task)]
    if not entries:
        tasks = ", ".join(sorted({entry.task for entry in zoo.models()}))
        raise SolarError(f"There is no model for the task {task!r}: choose from {tasks}.")
    if json:
        print_json([{**asdict(entry), "here": zoo.is_here(entry)} for entry in entries])
    elif name is not None:
        _print_one(entries[0])
    else:
        shown = [
            entry
            for entry in entries
            if every or task or entry.task in _DESCRIBING or zoo.is_here(entry)
        ]
        _print_table(shown, every=every, left_out=len(entries) - len(shown))


def _print_table(entries: list[NamedModel], *, every: bool, left_out: int) -> None:
    """Bundled models with measured scores, then published ones; 80 columns wide unless `every`."""
    bundled = [entry for entry in entries if entry.bundled]
    published = sorted(
        (entry for entry in entries if not entry.bundled), key=lambda entry: not zoo.is_here(entry)
    )
    default = weights.DEFAULT
    lines = [f"{default} is the default model; its card: solar models {default}"]
    if bundled:
        _print_rows([_row(entry, every) for entry in bundled])
        lines.append("Bundled: mAP in percent, measured on the data named in the model's card.")
    if published:
        if bundled:
            show("")
        _print_rows([_row(entry, every) for entry in published])
        lines.append("Published: mAP in percent on ROxf and RPar (medium/hard), from the authors.")
        lines.append(f"They are downloaded on first use, into {cache_directory()}")
    if any(entry.by_hand for entry in entries):
        lines.append("by hand: download it with a browser; solar models NAME says where to put it.")
    if any(entry.recipe for entry in entries):
        lines.append("to train: it is not published; solar models NAME names the recipe.")
    if left_out:
        lines.append(f"{left_out} more, parts of older networks: solar models --all")
    lines += dict.fromkeys(f"* {entry.caveat}" for entry in entries if entry.caveat)
    for line in ("", *lines):
        show(line)


def _print_rows(rows: list[dict[str, str]]) -> None:
    numbers = ("dim", "parameters", "MB")
    print_table([[*row.values()] for row in rows], [*rows[0]], right=numbers)


def _row(entry: NamedModel, every: bool) -> dict[str, str]:
    found, more = entry.reported, {}
    if every:
        more = {"parameters": f"{entry.parameters / 1e6:.1f} M", "trained on": entry.trained_on}
    facts = {"task": entry.task, "dim": str(entry.dim), **more}
    if entry.bundled:
        # The two scores of a card that say most.
        places = {name: found[name]["mAP"] for name in ("landmarks", "buildings") if name in found}
        scores = places or {name: found["affine"][name] for name in ("matching", "retrieval")}
        return {
            "bundled": entry.name,
            **facts,
            "MB": f"{weights.facts(entry.name)['file']['bytes'] / 1e6:.1f}",
            "mAP": ", ".join(f"{name} {score:.1f}" for name, score in scores.items()),
        }
    missing = "to train" if entry.recipe else "by hand" if entry.by_hand else "to download"
    return {
        "published": entry.name,
        **facts,
        "ROxf M/H": _scores(entry, "roxford5k"),
        "RPar M/H": _scores(entry, "rparis6k"),
        "source": "downloaded" if zoo.is_here(entry) else missing,
    }


def _print_one(entry: NamedModel) -> None:
    from rich.markdown import Markdown

    if entry.bundled:
        # Comments mark where measured numbers are written.
        lines = weights.card(entry.name).splitlines()
        shown = "\n".join(line for line in lines if not line.startswith("<!--"))
        output().print(Markdown(shown))
        return
    facts: dict[str, object] = {
        "name": entry.name,
        "task": entry.task,
        "architecture": entry.architecture,
        "attention": entry.attention or "none",
        "dim": entry.dim,
        "parameters": f"{entry.parameters:,}",
        "trained on": entry.trained_on,
        "licence": entry.licence,
        **{
            name: ", ".join(f"{level} {value}" for level, value in values.items())
            for name, values in entry.reported.items()
        },
        **({"note": entry.caveat} if entry.caveat else {}),
        "from": entry.recipe or entry.by_hand or entry.urls[0],
        "file": str(zoo.path_of(entry)) + ("" if zoo.is_here(entry) else " (not downloaded yet)"),
    }
    print_table(list(facts.items()))


def _scores(entry: NamedModel, dataset: str) -> str:
    """Results on a set, medium/hard, with a star if there is a caveat."""
    found = entry.reported.get(dataset, {})
    scores = "/".join(f"{found[level]:.1f}" for level in ("medium", "hard") if level in found)
    return f"{scores}*" if scores and entry.caveat else scores
