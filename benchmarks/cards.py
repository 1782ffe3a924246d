"""Measure the bundled models and write the results into their cards.

    python benchmarks/cards.py --data DIR                     # every model: figures, cards
    python benchmarks/cards.py --data DIR --only solar-lite0  # one of them
    python benchmarks/cards.py                                # without data: the toy figures alone

DIR (or SOLAR_DATA) holds landmarks/val-0.tar, landmarks/distractors-0.tar, buildings/val-0.tar and
affine/. Photos: every photo is a query against all others, up to 384 px, at the model's own scales;
mAP and recall@1 over all queries, without and with the distractors. Patches: matching, verification
and retrieval on patches cut from the affine sequences, beside RootSIFT. Toy figures are of drawn
photos and take no data; a test measures them again, and fails below the floor on the card.

Results go into NAME.json and, between its marks, into NAME.md. To measure on one machine and write
the cards on another:

    python benchmarks/cards.py --data DIR --weights FOLDER --out measured.json    # writes no card
    python benchmarks/cards.py --from measured.json                               # measures nothing

What `benchmarks/place_recognition.py --json places.json` has measured is added by

    python benchmarks/cards.py --places places.json                               # measures nothing

Of a network for local features this measures the toy figure alone. What `benchmarks/asmk.py --json`
has measured of it on real photos, beside RootSIFT and one embedding per photo, is added by

    python benchmarks/cards.py --asmk asmk.json                                   # measures nothing
"""

import argparse
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lib.card_text import render
from lib.drawn_sequences import draw_sequence
from lib.machine import machine
from lib.options import command
from lib.places import SIZE
from lib.timed_lines import say
from numpy.typing import NDArray

from solar import weights
from solar.datasets.patches.hpatches import HPatches
from solar.datasets.patches.hpatches_cut import make_hpatches
from solar.demo import toy
from solar.describe import Settings
from solar.describe.network import network_of
from solar.describe.runtime import describer
from solar.errors import SolarError
from solar.evaluation import evaluate
from solar.evaluation.protocols.hpatches import TASKS, evaluate_hpatches
from solar.evaluation.protocols.patch_describers import Describe, describe_sift, patch_describer
from solar.models import Model, RetrievalNet, fingerprint
from solar.models import load as load_model
from solar.nn import LocalPooling

DISTRACTORS = "landmarks/distractors-0.tar"
SETS = {"landmarks": "landmarks/val-0.tar", "buildings": "buildings/val-0.tar"}
FIRST_TOY = 500  # buildings that the demo and the other tests do not draw
# Methods of benchmarks/asmk.py that stand beside a network for local features.
BESIDE_LOCAL = {
    "asmk rootsift": "rootsift, ASMK*",
    "global solar-r18": "solar-r18, embedding",
}
SLACK = 2.0  # points by which the floor of a toy figure is below what was measured

Figures = dict[str, dict[str, float]]


# --- photos -----------------------------------------------------------------------------------


def measure_photos(model: RetrievalNet, data: Path | None, device: str) -> Figures:
    """How well a network finds photos again, in percent."""
    found = {"toy": toy_photos(model)}
    say(f"  toy: {_shown(found['toy'])}")
    if data is None:
        return found
    with tempfile.TemporaryDirectory(prefix="solar-cards-") as folder:
        for name, shard in SETS.items():
            for extra in (False, True):
                label = f"{name} + distractors" if extra else name
                found[label] = _of(
                    evaluate(
                        data / shard,
                        model=model,
                        size=SIZE,
                        distractors=data / DISTRACTORS if extra else None,
                        cache=folder,
                        device=device,
                    )
                )
                say(f"  {label}: {_shown(found[label])}")
    return found


def computed_in(model: Model, device: str) -> str:
    """In which numbers a network computes by default; a graph for a CPU says it in its name."""
    if device == "cuda":
        return "bfloat16"
    if not isinstance(model, RetrievalNet) or isinstance(model.pool, LocalPooling):
        return "float32"
    backend = describer(network_of(model), Settings.of(model, device=device)).backend
    return "float32" if backend == "torch" else backend


def toy_photos(model: RetrievalNet) -> dict[str, float]:
    """The same for drawn photos, which everybody has."""
    with tempfile.TemporaryDirectory(prefix="solar-toy-") as folder:
        toy.write(Path(folder), landmarks=8, views=5, size=(240, 180), first=FIRST_TOY)
        return _of(evaluate(folder, model=model))


def toy_local(features: str | Path) -> dict[str, float]:
    """The same of fewer photos by ASMK*, whose words are learnt from the photos themselves."""
    with tempfile.TemporaryDirectory(prefix="solar-toy-") as folder:
        toy.write(Path(folder), landmarks=6, views=4, size=(240, 180), first=FIRST_TOY)
        return _of(evaluate(folder, method="asmk", local_features=features))


def _of(evaluation: Any) -> dict[str, float]:
    told = evaluation.to_dict()
    return {name: round(told[name], 2) for name in ("mAP", "recall@1")}


# --- patches ----------------------------------------------------------------------------------


def measure_patches(describe: Describe, data: Path | None) -> Figures:
    """How well patches are matched, verified and retrieved, in percent."""
    found = {"toy": toy_patches(describe)}
    say(f"  toy: {_shown(found['toy'])}")
    if data:
        told = evaluate_hpatches(_sequences(data / "affine"), describe).to_dict()
        found["affine"] = {task: round(told[task]["mAP"], 2) for task in TASKS}
        say(f"  affine: {_shown(found['affine'])}")
    return found


@cache
def _sequences(folder: Path) -> HPatches:
    """Patches, cut once for everything that is measured on them."""
    return make_hpatches(folder, keypoints=500)


def toy_patches(describe: Describe) -> dict[str, float]:
    """Matching on drawn sequences."""
    with tempfile.TemporaryDirectory(prefix="solar-toy-") as folder:
        for identity in (FIRST_TOY, FIRST_TOY + 1):
            draw_sequence(Path(folder) / f"v_toy{identity}", identity)
        cut = make_hpatches(folder, keypoints=60)
        return {
            "matching": round(100 * evaluate_hpatches(cut, describe, tasks=TASKS[:1]).mean(), 2)
        }


def rootsift(patches: NDArray[np.uint8]) -> NDArray[np.float32]:
    """RootSIFT on all cores."""
    parts = np.array_split(patches, min(len(patches), os.cpu_count() or 1))
    with ThreadPoolExecutor() as pool:
        return np.concatenate(list(pool.map(partial(describe_sift, root=True), parts)))


# --- cards ------------------------------------------------------------------------------------


def describe_file(path: Path, model: Model) -> dict[str, Any]:
    """What a file is, apart from how well it does."""
    content, config = path.read_bytes(), model.config
    told: dict[str, Any] = {
        "attention": "".join(map(str, sorted(config.attention))),
        "dim": model.dim,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "file": {"bytes": len(content), "sha256": _hash(content)},
    }
    if not isinstance(model, RetrievalNet):
        name = "l2net" if model.config.has_published_layers else "small l2net"
        return {"task": "patches", "architecture": name, **told}
    local = isinstance(model.pool, LocalPooling)
    return {
        "task": "local" if local else "retrieval",
        "architecture": model.config.backbone,
        "pooling": model.config.pooling,
        "whitening": "learnt" if local else "end-to-end" if model.config.whitening else "",
        "size": model.config.size,
        "scales": list(model.config.scales),
        "fingerprint": fingerprint(model),
        **told,
    }


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def measure(names: Sequence[str], folder: Path, data: Path | None, device: str) -> dict[str, Any]:
    """Everything of these models: name to what goes into its NAME.json."""
    how = {"machine": machine(), "command": command()}
    found: dict[str, Any] = {}
    beside: dict[str, Figures] = {}
    for name in names:
        path = folder / f"{name}.safetensors"
        say(name)
        model = load_model(path, device=device)
        facts = describe_file(path, model) | {"numbers": computed_in(model, device)}
        if facts["task"] == "local":
            facts["figures"] = {"toy": toy_local(path)}
            beside["rootsift, ASMK*"] = {"toy": toy_local("rootsift")}
            compared = "rootsift, ASMK*"
        elif isinstance(model, RetrievalNet):
            facts["figures"] = measure_photos(model, data, device)
            compared = ""
        else:
            facts["figures"] = measure_patches(patch_describer(model), data)
            if "rootsift" not in beside:
                say("rootsift")
                beside["rootsift"] = measure_patches(rootsift, data)
            compared = "rootsift"
        toy_figure = next(iter(facts["figures"]["toy"].values()))
        facts["toy_floor"] = float(int(toy_figure - SLACK))
        facts["beside"] = {key: own for key, own in beside.items() if key == compared}
        found[name] = {"name": name, **facts, **how}
    return found


def write_cards(found: dict[str, Any], cards: Path) -> None:
    """Put figures into NAME.json, which keeps what people have written there, and into cards."""
    for name, facts in found.items():
        path = cards / f"{name}.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        lost = set(known.get("figures", {})) - set(facts["figures"])
        if facts["task"] == "local" and known.get("file") == facts["file"]:
            kept = _with_asmk(known, facts["figures"], facts["beside"])
            facts = {**kept, "toy_floor": facts["toy_floor"]}
        elif lost and known["file"] == facts["file"]:
            raise SolarError(
                f"The card of {name} would lose {', '.join(sorted(lost))}: say where the photos "
                "are with --data, or write elsewhere with --out."
            )
        here = cards / f"{name}.safetensors"
        if here.exists() and _hash(here.read_bytes()) != facts["file"]["sha256"]:
            raise SolarError(f"{here} is not the file that was measured: measure it again.")
        told = {"trained_on": "see its card", "licence": "MIT"}
        told = {key: known.get(key, otherwise) for key, otherwise in told.items()}
        written = {"name": name, **told, **facts}
        if "places" in known and known["file"] == facts["file"]:
            written["places"] = known["places"]
        path.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    render_cards(cards)


def add_places(places: Mapping[str, Any], cards: Path) -> None:
    """Put what `benchmarks/place_recognition.py` has measured into NAME.json and into cards."""
    how = {key: places[key] for key in ("sets", "size", "machine", "command")}
    for name, found in places["models"].items():
        path = cards / f"{name}.json"
        if not path.exists():  # of a model that is not bundled
            continue
        facts = json.loads(path.read_text(encoding="utf-8"))
        if found["sha256"] != facts["file"]["sha256"]:
            raise SolarError(f"{name} is not the file that was measured: measure it again.")
        facts["places"] = {"figures": found["figures"], **how}
        path.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    render_cards(cards)


def add_asmk(report: Mapping[str, Any], cards: Path) -> None:
    """Put what `benchmarks/asmk.py` has measured of local networks into NAME.json and cards."""
    figures = {
        row["method"]: {
            place: {name: round(own[name], 2) for name in ("mAP", "recall@1")}
            for place, own in row["figures"].items()
        }
        for row in report["rows"]
    }
    beside = {name: figures[method] for method, name in BESIDE_LOCAL.items() if method in figures}
    for row in report["rows"]:
        name = row["method"].removeprefix("asmk ")
        path = cards / f"{name}.json"
        if row["method"] in BESIDE_LOCAL or not path.exists():
            continue
        facts = json.loads(path.read_text(encoding="utf-8"))
        if row["fingerprint"] != fingerprint(load_model(path.with_suffix(".safetensors"))):
            raise SolarError(f"{name} is not the file that was measured: measure it again.")
        facts = _with_asmk(facts, figures[row["method"]], beside)
        facts |= {key: report[key] for key in ("machine", "command")}
        path.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    render_cards(cards)


def _with_asmk(
    facts: Mapping[str, Any], figures: Mapping[str, Any], beside: Mapping[str, Figures]
) -> dict[str, Any]:
    """Facts with more figures, of the model and of what stands beside it."""
    together = {
        name: {**facts["beside"].get(name, {}), **beside.get(name, {})}
        for name in {**facts["beside"], **beside}
    }
    return {**facts, "figures": {**facts["figures"], **figures}, "beside": together}


def render_cards(cards: Path) -> None:
    """Write every NAME.md from the facts in NAME.json."""
    every = {
        path.stem: json.loads(path.read_text(encoding="utf-8"))
        for path in cards.glob("*.json")
        if path.with_suffix(".md").exists()
    }
    for name in every:
        card = cards / f"{name}.md"
        card.write_text(render(card.read_text(encoding="utf-8"), name, every), encoding="utf-8")
        say(f"→ {card}")


def _shown(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in figures.items())


def main() -> None:
    """Measure, or take what was measured, and write the cards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, default=os.environ.get("SOLAR_DATA"))
    parser.add_argument("--only", nargs="+", choices=weights.NAMES, default=weights.NAMES)
    parser.add_argument("--weights", type=Path, default=weights.FOLDER, help="NAME.safetensors")
    parser.add_argument("--cards", type=Path, default=weights.FOLDER, help="NAME.json, NAME.md")
    parser.add_argument("--out", type=Path, help="write what was measured here, and no card")
    parser.add_argument("--from", type=Path, dest="measured", help="write the cards from such")
    parser.add_argument(
        "--places", type=Path, help="add these of place_recognition.py to the cards"
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--asmk", type=Path, help="add these of asmk.py to the cards")
    options = parser.parse_args()
    try:
        if options.asmk:
            add_asmk(json.loads(options.asmk.read_text(encoding="utf-8")), options.cards)
            return
        if options.places:
            add_places(json.loads(options.places.read_text(encoding="utf-8")), options.cards)
            return
        if options.measured:
            found = json.loads(options.measured.read_text(encoding="utf-8"))
        else:
            found = measure(options.only, options.weights, options.data, options.device)
        if options.out:
            options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            say(f"→ {options.out}")
        else:
            write_cards(found, options.cards)
    except SolarError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
