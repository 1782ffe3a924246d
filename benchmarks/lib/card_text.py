"""What is measured, as the Markdown between the marks of a model's card."""

from collections.abc import Mapping
from typing import Any

from lib.marked import fill

TWINS = {
    "solar-lite0": "solar-r18",
    "solar-local-345": "solar-local-none",
    "solar-local-none": "solar-local-345",
    "solar-local-small": "solar-local-345",
}
BESIDE = {
    "rootsift": "RootSIFT",
    "rootsift, ASMK*": "RootSIFT, ASMK*",
    "solar-r18, embedding": "solar-r18, one embedding",
}
# How the card calls what was measured, in its order.
ROWS = {
    "landmarks": "landmarks val",
    "landmarks + distractors": "landmarks val + distractors",
    "buildings": "buildings val",
    "buildings + distractors": "buildings val + distractors",
    "affine": "affine sequences",
    "toy": "toy (synthetic, no data needed)",
}

Facts = Mapping[str, Any]


def render(card: str, name: str, every: Mapping[str, Facts]) -> str:
    """Fill a card's marks.

    Args:
        card: With `<!-- facts -->` … `<!-- /facts -->` and the same for `figures`.
        name: Whose it is.
        every: By name, the facts of all bundled models: twins stand side by side.

    Raises:
        ValueError: A mark is missing.
    """
    for mark, text in (("facts", facts(every[name])), ("figures", figures(name, every))):
        card = fill(card, mark, text)
    return card


def facts(of: Facts) -> str:
    """What the file is."""
    attention = ", ".join(of["attention"])
    after = "layers" if len(of["attention"]) > 1 else "layer"
    layers = f"second-order attention after {after} {attention}" if attention else "no attention"
    if of["task"] == "local":
        what = (
            f"input: photos of any size (downscaled to {of['size']} px); output: up to 1,000 local "
            f"features of {of['dim']} values, with their positions"
        )
    elif of["task"] == "retrieval":
        what = (
            f"input: photos of any size (by default up to {of['size']} px); "
            f"output: {of['dim']} values"
        )
    else:
        what = f"input: greyscale 32×32 patches; output: {of['dim']} values"
    return (
        f"- {what}\n"
        f"- {of['architecture']}, {layers}, {of['parameters'] / 1e6:.2f} M parameters\n"
        f"- {of['file']['bytes'] / 1e6:.1f} MB: kernels and matrices stored in float16, "
        "computed in float32\n"
        f"- sha256 `{of['file']['sha256']}`\n"
        f"- licence: {of['licence']}\n"
    )


def figures(name: str, every: Mapping[str, Facts]) -> str:
    """A table: what was measured down, models across; and where, when, how."""
    of = every[name]
    columns: dict[str, Mapping[str, Any]] = {name: of["figures"]}
    twin = TWINS.get(name, "")
    if twin in every:
        columns[twin] = every[twin]["figures"]
    columns |= {BESIDE[key]: own for key, own in of["beside"].items()}
    lines = [
        "| " + " | ".join(["percent", *columns]) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for key, title in ROWS.items():
        for measure in of["figures"].get(key, ()):
            cells = [own.get(key, {}).get(measure) for own in columns.values()]
            shown = ["" if value is None else f"{value:.1f}" for value in cells]
            lines.append("| " + " | ".join([f"{title}, {_named(measure)}", *shown]) + " |")
    return (
        "\n".join(lines) + "\n\n"
        f"A test requires at least **{of['toy_floor']:g}** on the toy set. Measured on "
        f"{_where(of['machine'])}, {of['numbers']}) with `{of['command']}`.\n"
        f"{places(name, every) if 'places' in of else ''}"
    )


def places(name: str, every: Mapping[str, Facts]) -> str:
    """A table of place recognition: recall with intervals, sets down, models across."""
    of = every[name]["places"]
    columns: dict[str, Mapping[str, Any]] = {name: of["figures"]}
    twin = TWINS.get(name, "")
    if "places" in every.get(twin, {}):
        columns[twin] = every[twin]["places"]["figures"]
    lines = [
        "",
        "| place recognition, percent | " + " | ".join(columns) + " |",
        "|---|" + "---:|" * len(columns),
    ]
    for key, measured in of["figures"].items():
        for measure in measured:
            cells = [own.get(key, {}).get(measure) for own in columns.values()]
            shown = ["" if c is None else f"{c[0]:.1f} ({c[1]:.1f}–{c[2]:.1f})" for c in cells]
            lines.append("| " + " | ".join([f"{key}, {measure}", *shown]) + " |")
    sets = "; ".join(
        f"{key}: {own['queries']} queries, {own['database']} database photos, "
        + (
            f"correct if at most {own['frames']} frames apart"
            if own["frames"]
            else "one correct each"
        )
        for key, own in of["sets"].items()
    )
    return (
        "\n".join(lines) + "\n\n"
        f"95 % intervals in brackets. {sets}. Whole photos, longest side {of['size']} px, "
        "at the model's scales; the model was trained on none of these photos. Measured on "
        f"{_where(of['machine'])}) with `{of['command']}`.\n"
    )


def _where(machine: Mapping[str, Any]) -> str:
    """Date and machine; the bracket that it opens is left open."""
    what = machine["accelerator"] or f"{machine['processor']}, {machine['cores']} cores"
    return f"{machine['date']} ({what}, torch {machine['torch']}"


def _named(measure: str) -> str:
    return measure if measure.startswith(("mAP", "recall")) else f"{measure} mAP"
