"""Exact search with the vectors in GPU memory, beside plain float32 products and the processor.

    PYTHONPATH=src python benchmarks/search_gpu.py [--json benchmarks/results/search_gpu.json]
    PYTHONPATH=src python benchmarks/search_gpu.py --index-rows 200000   # also whole indexes

Draws unit vectors on the device, in clusters as photos of places are: those of one place have a
cosine of about 0.6. Queries are further photos of some of the places. Then, in one run:

- loading: from host memory to an answer for the first query;
- the best 100 for 70 queries, and for one, from call to arrays in host memory: ours, taking turns
  with float32 products and `topk` of torch (the vectors resident as well), and the products alone;
- the same with a tenth of the photos removed;
- the processor's exact search, whose rows and scores must be equal, all of them;
- what is hard for single precision, in small: rows that it cannot tell apart, hundreds of equals.

With --index-rows also `Index.search_vectors`, which names photos, in GPU memory and not. A million
vectors of 2048 numbers need 22 GB of GPU memory and 9 GB of the host's.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from lib.machine import machine
from torch import Tensor

from solar.index import Index
from solar.storage import nearest
from solar.storage.gpu_search import GpuVectors, devices_called

PLACE = 100  # photos
COSINE = 0.6  # of two photos of a place
PIECE = 65536
Array = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]
Found = tuple[npt.NDArray[np.int64], Array]


def main() -> None:
    """Draw, measure, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--queries", type=int, default=70)
    parser.add_argument("-k", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--index-rows", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    devices = devices_called(given.device)
    vectors, queries = drawn(given.rows, given.queries, given.dim, devices[0])
    result: dict[str, Any] = {
        name: getattr(given, name) for name in ("rows", "dim", "queries", "k")
    }
    result |= {"devices": len(devices), "cosine": COSINE}
    result |= measured(vectors, queries, given.k, devices, given.rounds)
    result["equal_where_hard"] = [
        equal_where_hard(devices, dim, spread) for dim in (100, 2048) for spread in (3e-5, 0.02, 1)
    ]
    if given.index_rows:
        some = vectors[: given.index_rows]
        result["index"] = indexes(some, queries, given.k, given.device, given.rounds)
    show(result)
    if given.json:
        given.json.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n")


def drawn(rows: int, queries: int, dim: int, device: torch.device) -> tuple[Array, Array]:
    """Vectors (rows, dim) and queries, drawn on a device and kept on the host."""
    dice = torch.Generator(device).manual_seed(0)

    def units(count: int) -> Tensor:
        return torch.nn.functional.normalize(
            torch.randn((count, dim), generator=dice, device=device)
        )

    places = units(max(rows // PLACE, 1))

    def photos(count: int) -> Tensor:
        which = torch.randint(len(places), (count,), generator=dice, device=device)
        mixed = COSINE**0.5 * places[which] + (1 - COSINE) ** 0.5 * units(count)
        return torch.nn.functional.normalize(mixed)

    vectors = np.empty((rows, dim), np.float32)
    for at in range(0, rows, PIECE):
        count = min(PIECE, rows - at)
        vectors[at : at + count] = photos(count).cpu().numpy()
    return vectors, photos(queries).cpu().numpy()


def measured(
    vectors: Array, queries: Array, k: int, devices: list[torch.device], rounds: int
) -> dict[str, Any]:
    """Everything about vectors without an index around them."""
    held = GpuVectors(devices)
    on_gpu = devices[0].type == "cuda"
    began = time.perf_counter()
    search(held, queries[:1], vectors, 1)
    loading = time.perf_counter() - began

    present = np.random.default_rng(1).random(len(vectors)) < 0.9
    plain = torch.from_numpy(vectors).to(devices[0])
    asked = torch.from_numpy(queries).to(devices[0])

    def in_float32(some: Tensor) -> Any:
        values, rows = (some @ plain.T).topk(k)
        return rows.cpu(), values.cpu()

    def products() -> None:
        torch.mm(asked, plain.T)
        if on_gpu:
            torch.cuda.synchronize()

    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    times = in_turns(
        {
            "ours": lambda: search(held, queries, vectors, k),
            "float32_topk": lambda: in_float32(asked),
            "products_alone": products,
            "ours_without_a_tenth": lambda: search(held, queries, vectors, k, present),
            "ours_one_query": lambda: search(held, queries[:1], vectors, k),
            "float32_topk_one_query": lambda: in_float32(asked[:1]),
        },
        rounds,
    )
    result: dict[str, Any] = {
        "loading_s": loading,
        "bytes": held.bytes,
        "ms": times,
    }
    if on_gpu:
        peak = torch.cuda.max_memory_allocated() - before
        result["peak_bytes_beside_vectors"] = peak
    for name, mask in (("", None), ("_without_a_tenth", present)):
        found = search(held, queries, vectors, k, mask)
        began = time.perf_counter()
        truth = on_processor(queries, vectors, k, mask)
        result[f"processor_s{name}"] = time.perf_counter() - began
        result[f"equal_rows{name}"] = bool(np.array_equal(found[0], truth[0]))
        result[f"equal_scores{name}"] = bool(np.array_equal(found[1], truth[1]))
        result[f"differing_scores{name}"] = int((found[1] != truth[1]).sum())
    return result


def in_turns(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of each, taking turns after two rounds to warm up: median and best."""
    spent: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 2):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            if number >= 2:
                spent[name].append(1000 * (time.perf_counter() - began))
    return {
        name: {"median": statistics.median(own), "best": min(own)} for name, own in spent.items()
    }


def search(
    held: GpuVectors, queries: Array, vectors: Array, k: int, present: Mask | None = None
) -> Found:
    """The best k of each query, ranked as an index ranks them."""
    candidates = held.candidates(queries, vectors, k, ["vectors"], present)
    assert candidates is not None, "no room"
    ranked = nearest.rank_all(queries, vectors, candidates, k)
    rows, scores = zip(*(zip(*best, strict=True) for best in ranked), strict=True)
    return np.array(rows), np.array(scores, np.float32)


def on_processor(queries: Array, vectors: Array, k: int, present: Mask | None) -> Found:
    """What `solar.storage.nearest` answers."""
    allowed = None if present is None else np.flatnonzero(present)

    def selection(first: int, last: int) -> Any:
        return None if allowed is None else allowed[slice(*np.searchsorted(allowed, (first, last)))]

    rows, scores = np.full((len(queries), k), -1), np.zeros((len(queries), k), np.float32)
    found = nearest.scan(queries, vectors, k, selection)
    for number, ranked in enumerate(nearest.rank_all(queries, vectors, found, k)):
        rows[number, : len(ranked)] = [row for row, _ in ranked]
        scores[number, : len(ranked)] = [score for _, score in ranked]
    return rows, scores


def equal_where_hard(devices: list[torch.device], dim: int, spread: float) -> bool:
    """Whether rows close to one of five, and many equal ones, are ranked as by a full sort."""
    dice = np.random.default_rng(0)
    vectors = dice.standard_normal((5, dim))[dice.integers(0, 5, 20_000)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors += spread * dice.standard_normal(vectors.shape) / dim**0.5
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    vectors[500:900] = vectors[3]
    queries = np.concatenate([vectors[:10], vectors[600:602]])
    rows, scores = search(GpuVectors(devices), queries, vectors, 100)
    products = (queries.astype(np.float64) @ vectors.astype(np.float64).T).astype(np.float32)
    truth = np.argsort(-products, axis=1, kind="stable")[:, :100]
    best = np.take_along_axis(products, truth, axis=1)
    return bool(np.array_equal(rows, truth) and np.array_equal(scores, best))


def indexes(vectors: Array, queries: Array, k: int, device: str, rounds: int) -> dict[str, Any]:
    """`Index.search_vectors` in GPU memory and without, taking turns."""
    with tempfile.TemporaryDirectory() as folder:
        address = Path(folder, "photos.solar")
        Index.create(address, vectors, [f"{row:07}.jpg" for row in range(len(vectors))]).close()
        plain = Index.open(address, device="cpu")
        held = Index.open(address, device=device)
        began = time.perf_counter()
        held.search_vectors(queries[:1], k)
        loading = time.perf_counter() - began
        equal = held.search_vectors(queries, k) == plain.search_vectors(queries, k)
        runs = {
            "gpu": lambda: held.search_vectors(queries, k),
            "gpu_one_query": lambda: held.search_vectors(queries[:1], k),
            "processor_one_query": lambda: plain.search_vectors(queries[:1], k),
        }
        times = in_turns(runs, rounds)
        held.close()
        plain.close()
    return {"rows": len(vectors), "loading_s": loading, "equal": equal, "ms": times}


def show(result: dict[str, Any]) -> None:
    """Print what was measured."""
    print(f"{result['rows']:,} × {result['dim']}, {result['queries']} queries, top {result['k']}")
    print(f"loading {result['loading_s']:.2f} s, {result['bytes'] / 1e9:.2f} GB on the device")
    for name, own in result["ms"].items():
        print(f"{name:<26}{own['median']:>10.3f} ms   best {own['best']:.3f}")
    for name in ("", "_without_a_tenth"):
        equal = result[f"equal_rows{name}"] and result[f"equal_scores{name}"]
        seconds = result[f"processor_s{name}"]
        print(f"the processor's answer{name}: equal {equal}, {seconds:.2f} s")
    print(f"the same where it is hard: {result['equal_where_hard']}")
    if "index" in result:
        print(json.dumps(result["index"], indent=1))


if __name__ == "__main__":
    main()
