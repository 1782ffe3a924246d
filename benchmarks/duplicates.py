"""Duplicates: which edits of photos are found, what is told apart, how long it takes.

    python benchmarks/duplicates.py edits --photos train2017 --folder work [--hash]
    python benchmarks/duplicates.py keep --photos val/ --folder work --count 1000
    python benchmarks/duplicates.py apart --photos val-0.tar --folder work --known copies.csv
    python benchmarks/duplicates.py frames --photos frames/ --folder work
    python benchmarks/duplicates.py killed --photos train2017 --folder work

`edits` draws `--count` photos and edits some of them from a seed (`lib/photo_edits.py`), and counts
which pairs are called exact, copy or crop. With `--hash` the perceptual hash of `imagehash` is
counted beside it, and the cosine of the descriptors always, each with the threshold that gives it
the best F1 on these very photos. `keep` makes twelve edits of each photo, and counts for which
pairs the original is kept, which are open, and which originals are listed for removal, without a
search. `apart` lists what is called a copy among photos of which none should be, but for
the pairs of a `--known` table (`duplicates_true_copies.csv`). `frames` does the
same for the frames of a video, and says what neighbours are called. `killed` stops a run with
SIGKILL at random moments, and compares its report with that of a run that nobody stopped.

Descriptors are made with `--size` pixels at one scale, in an index that another run goes on with.
"""

import argparse
import csv
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from lib.machine import machine
from lib.memory import PeakMemory, own_memory
from lib.photo_edits import DEEPER, EDITS, TOLD, write_edit
from PIL import Image

from solar.near_duplicates.report import COPIES, DuplicateGroup, DuplicateReport
from solar.storage.folder_engine import finished

Pairs = set[tuple[str, str]]
BITS = 64
WHOLE_FIT = 0.7  # correlation of small pictures from which photos are laid over each other


def main() -> None:
    """Measure what is asked for, print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=list(MEASURED))
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True, help="where to work")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--edited", type=int, default=2000)
    parser.add_argument("--deeper", type=int, default=200, help="more of them, cut to 16 %%")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--backend", default="torch")
    parser.add_argument("--hash", action="store_true", help="needs imagehash")
    parser.add_argument("--only", help="edits, separated by commas")
    parser.add_argument("--known", type=Path, help="CSV of true copies: a, b")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    result = MEASURED[options.what](options)
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n")


# What is found


def edits(options: argparse.Namespace) -> dict[str, Any]:
    """Recall by edit, and F1, beside a hash and a threshold."""
    folder = options.folder / "photos"
    truth = drawn(options, folder)
    index = built(folder, options)
    report, cost = grouped(index, options.folder / "edits.json")
    found = called(DuplicateReport.read(report))
    asked = {pair for pair, edit in truth.items() if edit in EDITS}
    known = set(truth) | known_pairs(options)
    result: dict[str, Any] = {
        "photos": options.count,
        "edited": len(asked),
        **cost,
        "duplicates": judged(found, truth, asked, known),
        "wrong": sorted(map(list, found - known))[:50],
    }
    names, vectors = read_index(index)
    result["descriptor threshold"] = best_threshold(
        near_cosines(names, vectors), truth, asked, known
    )
    if options.hash:
        result["perceptual hash"] = best_threshold(near_hashes(folder, names), truth, asked, known)
    return result


def drawn(options: argparse.Namespace, folder: Path) -> dict[tuple[str, str], str]:
    """Link the photos, write the edited ones; which pair was made by which edit."""
    chance = random.Random(options.seed)
    names = sorted(file.name for file in options.photos.iterdir())
    chosen = sorted(chance.sample(names, options.count))
    edited = chance.sample(chosen, options.edited + options.deeper)
    kinds = [*EDITS]
    truth = {}
    for part in ("coco", "edited"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for name in chosen:
        if not (folder / "coco" / name).exists():
            os.link(options.photos / name, folder / "coco" / name)
    for number, name in enumerate(edited):
        kind = kinds[number % len(kinds)] if number < options.edited else next(iter(DEEPER))
        truth[pair(f"coco/{name}", f"edited/{name}")] = kind
        photo = Image.open(options.photos / name).convert("RGB")
        write_edit(photo, kind, f"{options.seed} {name}", folder / "edited", Path(name).stem)
    return truth


def keep(options: argparse.Namespace) -> dict[str, Any]:
    """What is suggested for each photo and each of its edits, as a pair."""
    from solar.near_duplicates.groups import groups_of, photo_facts
    from solar.near_duplicates.orientations import best_way
    from solar.near_duplicates.relation import PhotoComparer
    from solar.near_duplicates.small_pictures import small_picture
    from solar.ranking.verify import Verifier

    comparer = PhotoComparer(Verifier(lambda name: None, options.folder / "local"), places=False)
    files = sorted(file for file in options.photos.rglob("*") if file.is_file())
    chosen = random.Random(options.seed).sample(files, min(options.count, len(files)))
    wanted = options.only.split(",") if options.only else TOLD

    def suggested(file: Path, edit: str) -> str:
        folder = options.folder / "keep" / edit.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        photo = Image.open(file).convert("RGB")
        made = write_edit(photo, edit, f"{options.seed} {file.stem}", folder, file.stem)
        small = [small_picture(one)[0][None] for one in (file, made)]
        ways, fits = best_way(*small)
        way = int(ways[0]) if fits[0] >= WHOLE_FIT else -1
        found = comparer.relation(comparer.given(file), comparer.given(made), way)
        if found is None or found.kind not in COPIES:
            return "not found"
        names = [str(file), str(made)]
        [group] = groups_of(
            [replace(found, a=0, b=1)],
            COPIES,
            lambda row: replace(photo_facts("", Path(names[row])), name=f"{row}"),
        )
        return "listed" if "0" in group.rest else "kept" if "1" in group.rest else "open"

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        result = {}
        for edit in wanted:
            counts = Counter(threads.map(partial(suggested, edit=edit), chosen))
            result[edit] = {what: counts[what] for what in ("kept", "open", "listed", "not found")}
            print(edit, result[edit], file=sys.stderr, flush=True)
    return {"photos": len(chosen), "originals": result}


def judged(
    found: Pairs, truth: dict[tuple[str, str], str], asked: Pairs, known: Pairs
) -> dict[str, Any]:
    """Recall by edit; precision, recall and F1 over what is asked for."""
    total, right = Counter(truth.values()), Counter(truth[one] for one in found & truth.keys())
    recall = len(found & asked) / len(asked)
    wrong = len(found - known)
    precision = len(found & asked) / max(len(found & asked) + wrong, 1)
    return {
        "F1": round(2 * precision * recall / max(precision + recall, 1e-9), 4),
        "precision": round(precision, 4),
        "recall": round(recall, 4),
        "wrong pairs": wrong,
        "recall by edit": {edit: round(right[edit] / total[edit], 3) for edit in total},
    }


def best_threshold(
    near: list[tuple[float, str, str]],
    truth: dict[tuple[str, str], str],
    asked: Pairs,
    known: Pairs,
) -> dict[str, Any]:
    """The same for all pairs above a threshold, the one with the best F1."""
    near = sorted(near, reverse=True)
    right = wrong = 0
    best, limit = 0.0, 1.0
    for number, (score, a, b) in enumerate(near):
        right += pair(a, b) in asked
        wrong += pair(a, b) not in known
        last = number + 1 == len(near) or near[number + 1][0] < score
        f1 = 2 * right / (right + wrong + len(asked))
        if last and f1 > best:
            best, limit = f1, score
    found = {pair(a, b) for score, a, b in near if score >= limit}
    return {"threshold": round(limit, 4), **judged(found, truth, asked, known)}


def near_cosines(names: list[str], vectors: npt.NDArray[np.float32]) -> list[Any]:
    """Pairs of the highest cosines, some for every pair that there should be."""
    return near_pairs(names, lambda a, b: vectors[a] @ vectors[b].T, 0.55)


def near_hashes(folder: Path, names: list[str]) -> list[Any]:
    """Pairs of the nearest perceptual hashes: the share of bits that agree."""
    imagehash = import_module("imagehash")  # only for this comparison

    bits = [imagehash.phash(Image.open(folder / name)).hash.ravel() for name in names]
    codes = np.packbits(np.array(bits), axis=1).view(np.uint64)[:, 0]

    def agree(a: slice, b: slice) -> npt.NDArray[np.float32]:
        other = np.bitwise_count(codes[a][:, None] ^ codes[b][None])
        shares: npt.NDArray[np.float32] = (1 - other / BITS).astype(np.float32)
        return shares

    return near_pairs(names, agree, 1 - 16 / BITS)


def near_pairs(names: list[str], scored: Any, least: float) -> list[Any]:
    """Pairs whose score is at least this, block by block."""
    found = []
    for first in range(0, len(names), 1024):
        a = slice(first, first + 1024)
        for second in range(first, len(names), 4096):
            scores = scored(a, slice(second, second + 4096))
            rows, columns = np.nonzero(scores >= least)
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
                if first + i < second + j:
                    found.append((float(scores[i, j]), names[first + i], names[second + j]))
    return found


# What is told apart


def apart(options: argparse.Namespace) -> dict[str, Any]:
    """What is called a copy among photos of which none should be."""
    index = built(options.photos, options)
    report, cost = grouped(index, options.folder / f"{options.photos.stem}.json")
    groups = DuplicateReport.read(report)
    found, kinds = called(groups), Counter(group.kind for group in groups)
    known, names = known_pairs(options), set(read_index(index)[0])
    return {
        "photos": len(names),
        **cost,
        "groups": dict(kinds),
        "called copies": sorted(map(list, found)),
        "wrong": sorted(map(list, found - known)),
        "known, not called": sum(set(one) <= names for one in known - found),
    }


def frames(options: argparse.Namespace) -> dict[str, Any]:
    """What neighbouring frames are called."""
    index = built(options.photos, options)
    report, cost = grouped(index, options.folder / "frames.json", "--min-score", "0.3")
    kinds: dict[tuple[str, str], str] = {}
    for group in DuplicateReport.read(report):
        for one in group.pairs:
            kinds.setdefault(pair(group.photos[one.a].name, group.photos[one.b].name), one.kind)
    names = sorted(read_index(index)[0], key=lambda name: [*map(int, re.findall(r"\d+", name))])
    neighbours = [pair(a, b) for a, b in pairwise(names)]
    return {
        "frames": len(names),
        **cost,
        "neighbours": dict(Counter(kinds.get(one, "nothing") for one in neighbours)),
        "all pairs": dict(Counter(kinds.values())),
    }


# Stops


def killed(options: argparse.Namespace) -> dict[str, Any]:
    """Whether a run that is stopped many times ends with the same report."""
    index = built(options.photos, options)
    begin = time.perf_counter()
    whole, _ = grouped(index, options.folder / "whole.json")
    usual = time.perf_counter() - begin
    chance, kills, output = random.Random(options.seed), 0, options.folder / "killed.json"
    while kills < options.kills:
        run = started(index, output)
        try:
            run.wait(chance.uniform(0.1, 1) * usual)
            output.unlink()  # it was quicker than that: begin again
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            run.wait()
            kills += 1
    grouped(index, output)
    return {"kills": kills, "same": whole.read_bytes() == output.read_bytes()}


# Running it


def built(photos: Path, options: argparse.Namespace) -> Path:
    """The index of some photos."""
    index: Path = options.folder / f"{photos.stem}.solar"
    settings = {"--size": options.size, "--scales": 1, "--backend": options.backend}
    given = [str(part) for setting in settings.items() for part in setting]
    command = [sys.executable, "-m", "solar", "index", "build", str(photos), "-o", str(index)]
    if not finished(index):
        subprocess.run([*command, *given], check=True, stderr=subprocess.DEVNULL)
    return index


def started(index: Path, report: Path, *more: str) -> "subprocess.Popen[bytes]":
    """`solar duplicates` in a process of its own."""
    command = [sys.executable, "-m", "solar", "duplicates", str(index), "-o", str(report), *more]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=quiet, stderr=quiet)


def grouped(index: Path, report: Path, *more: str) -> tuple[Path, dict[str, Any]]:
    """The report, how long it took, and how much memory; CPU seconds are those of all cores."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    run = started(index, report, *more)
    with PeakMemory(lambda: own_memory(run.pid), every=0.05) as peak:
        if run.wait():
            raise SystemExit(f"solar duplicates {index} failed")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    cost = {"seconds": round(time.perf_counter() - begin, 1), "CPU seconds": round(busy, 1)}
    return report, {**cost, "MB": peak.bytes // 1_000_000}


def read_index(place: Path) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Names and vectors."""
    from solar.index import Index

    with Index.open(place) as index:
        return index.paths, np.asarray(index.vectors)


def called(groups: Iterable[DuplicateGroup]) -> Pairs:
    """Pairs that are called exact, copy or crop."""
    return {
        pair(group.photos[one.a].name, group.photos[one.b].name)
        for group in groups
        for one in group.pairs
        if one.kind in COPIES
    }


def known_pairs(options: argparse.Namespace) -> Pairs:
    """Pairs that somebody has looked at and that are copies in truth."""
    if options.known is None:
        return set()
    with options.known.open(newline="") as rows:
        return {pair(row["a"], row["b"]) for row in csv.DictReader(rows)}


def pair(a: str, b: str) -> tuple[str, str]:
    """Two names, in order."""
    return (a, b) if a < b else (b, a)


MEASURED = {"edits": edits, "keep": keep, "apart": apart, "frames": frames, "killed": killed}

if __name__ == "__main__":
    main()
