"""What decoding on a GPU gains, and what it changes: photos from files, in turns with Pillow.

    PYTHONPATH=src python benchmarks/decode_gpu.py [--json results.json]
    PYTHONPATH=src python benchmarks/decode_gpu.py --part change --data DIR [--json results.json]

`--part speed`: whole builds from JPEG files, drawn here and as large as a camera's, decoded by
Pillow's threads and on the GPU in turns; what reading costs, from files and from a tar shard; the
most GPU memory, and the processor's load. `--part change`: real photos described both ways, their
cosines, and the mAP of queries decoded one way among photos decoded the other. DIR (or SOLAR_DATA)
holds landmarks/val-0.tar and buildings/val-0.tar.
"""

import argparse
import io
import json
import os
import statistics
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from lib.machine import machine
from lib.memory import PeakMemory
from lib.networks import network
from numpy.typing import NDArray
from PIL import Image

from solar.describe import Throughput
from solar.describe.pipeline import decoders_for
from solar.describe.prefetch import ahead
from solar.images import Photos, find_photos
from solar.index import Index
from solar.index.build import fill as filled
from solar.models import RetrievalNet, retrieval_model
from solar.weights import DEFAULT

Way = Literal["exact", "fast"]
WAYS: tuple[Way, Way] = ("exact", "fast")
SMALL, LARGE = (1024, 768), (4032, 3024)
RESNET101 = "ResNet-101 with attention"
# The network, the size of the photos, and how many are described each way.
CASES = {
    f"{DEFAULT}, 1024×768": (DEFAULT, SMALL, {"exact": 4096, "fast": 16384}),
    f"{DEFAULT}, 4032×3024": (DEFAULT, LARGE, {"exact": 1536, "fast": 6144}),
    "ResNet-101, 1024×768": (RESNET101, SMALL, {"exact": 2048, "fast": 2048}),
    "ResNet-101, 4032×3024": (RESNET101, LARGE, {"exact": 1536, "fast": 3072}),
}
ORIENTATION, MAKER = 0x0112, 0x010F


def draw(width: int, height: int, seed: int) -> Image.Image:
    """Noise of every octave, as strong as it is coarse; a large photo is no sharper than a lens."""
    rng = np.random.default_rng(seed)
    sharp = 3 if width > 2000 else 1
    size = width // sharp, height // sharp
    total = np.zeros((size[1], size[0], 3), np.float32)
    for octave in range(9):
        step = 2**octave
        shape = (size[1] // step + 2, size[0] // step + 2, 3)
        noise = Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8))
        smooth = noise.resize(size, Image.Resampling.BICUBIC)
        total += (np.asarray(smooth, np.float32) - 127.5) * step**0.5
    total *= 50 / total.std()
    scene = Image.fromarray(np.clip(total + 127.5, 0, 255).astype(np.uint8))
    pixels = np.asarray(scene.resize((width, height), Image.Resampling.BICUBIC), np.int16)
    grain = rng.integers(-3, 4, (height, width, 1), dtype=np.int16)
    return Image.fromarray((pixels + grain).clip(0, 255).astype(np.uint8))


def fill(folder: Path, size: tuple[int, int], count: int, distinct: int) -> int:
    """Write photos with a camera's metadata, most of them links to few; returns bytes per file."""
    exif = Image.Exif()
    exif[ORIENTATION], exif[MAKER] = 1, "drawn"
    for number in range(distinct):
        file = folder / f"{number:06}.jpg"
        draw(*size, seed=number).save(file, quality=92, exif=exif)
    for number in range(distinct, count):
        os.link(folder / f"{number % distinct:06}.jpg", folder / f"{number:06}.jpg")
    files = [folder / f"{number:06}.jpg" for number in range(distinct)]
    return sum(file.stat().st_size for file in files) // distinct


def used_memory() -> int:
    """Bytes of the GPU's memory that anybody holds: the JPEG engine's are not counted by torch."""
    free, total = torch.cuda.mem_get_info()
    return total - free


def timed(net: RetrievalNet, photos: Photos, way: Way) -> dict[str, Any]:
    """Extract once: milliseconds per photo once running, GPU memory, and processor time."""
    times: list[tuple[float, int, float]] = []

    def progress(step: str, done: int, total: int) -> None:
        if done:
            times.append((time.perf_counter(), done, time.process_time()))

    on_gpu = net.device.type == "cuda"
    before = used_memory() if on_gpu else 0
    with tempfile.TemporaryDirectory() as place, PeakMemory(look(on_gpu), 0.02) as peak:
        how = Throughput(batch=32)
        known: dict[str, Any] = {"model": net, "mode": way, "throughput": how, "progress": progress}
        settings = filled(Path(place, "index"), photos, **known).spec.settings
    # Without the start, in which networks and decoders are made ready.
    begin, end = times[len(times) // 5], times[-1]
    done = end[1] - begin[1]
    return {
        "decoder": settings["decoder"],
        "photos": len(photos),
        "ms": 1000 * (end[0] - begin[0]) / done,
        "processor_ms": 1000 * (end[2] - begin[2]) / done,
        "cores_busy": (end[2] - begin[2]) / (end[0] - begin[0]),
        "gpu_GiB": peak.bytes / 2**30,
        "gpu_GiB_before": before / 2**30,
    }


def look(on_gpu: bool) -> Any:
    """What to watch: the GPU's memory where there is one."""
    return used_memory if on_gpu else (lambda: 0)


def networks(device: str) -> dict[str, RetrievalNet]:
    """Those that are timed, with weights that are trained, or drawn."""
    attention = {4: 4, 5: 2}
    return {
        DEFAULT: retrieval_model(DEFAULT, device=device),
        RESNET101: network(attention, device=device),
    }


def speed(arguments: argparse.Namespace) -> dict[str, Any]:
    """Every case, each way in turns."""
    results: dict[str, Any] = {"rounds": arguments.rounds}
    nets = networks(arguments.device)
    cases = {name: case for name, case in CASES.items() if arguments.only in name}
    for size in dict.fromkeys(case[1] for case in cases.values()):
        with tempfile.TemporaryDirectory() as temporary:
            counts = [max(many.values()) for _, of, many in cases.values() if of == size]
            count = max(64, max(counts) // arguments.share)
            mean = fill(Path(temporary), size, count, 16 if size == SMALL else 8)
            photos = find_photos(temporary)
            some = photos.select(range(min(count, 2048, 2**30 // mean)))
            results[f"reading, {size[0]}×{size[1]}"] = {"bytes_per_file": mean, **reading(some)}
            for name, (of_net, of, many) in cases.items():
                if of != size:
                    continue
                rounds: dict[Way, list[dict[str, Any]]] = {way: [] for way in WAYS}
                for _ in range(arguments.rounds):
                    for way in WAYS:
                        number = max(64, many[way] // arguments.share)
                        some = photos.select(range(number))
                        rounds[way].append(timed(nets[of_net], some, way))
                results[name] = told(rounds)
                print(name, json.dumps(results[name], indent=1), flush=True)
    return results


def told(rounds: dict[Way, list[dict[str, Any]]]) -> dict[str, Any]:
    """The fastest round each way, and how many times as fast in the median."""
    ratios = [
        slow["ms"] / fast["ms"] for slow, fast in zip(rounds["exact"], rounds["fast"], strict=True)
    ]
    best = {str(way): min(runs, key=lambda run: run["ms"]) for way, runs in rounds.items()}
    return {**best, "times_as_fast": statistics.median(ratios), "ratios": ratios}


def reading(photos: Photos) -> dict[str, Any]:
    """Milliseconds to read a photo and know its digest, in all threads: files, then shards."""
    threads = decoders_for(torch.device("cuda"))
    with tempfile.TemporaryDirectory() as temporary:
        parts = [Path(temporary, f"{part}.tar") for part in range(4)]
        for part, path in enumerate(parts):
            with tarfile.open(path, "w") as shard:
                for number in range(part, len(photos), len(parts)):
                    data = Path(str(photos.read(number))).read_bytes()
                    member = tarfile.TarInfo(photos.names[number])
                    member.size = len(data)
                    shard.addfile(member, io.BytesIO(data))
        sources = {"files": photos, "shards": find_photos(parts)}
        times: dict[str, list[float]] = {name: [] for name in sources}
        for _ in range(3):
            for name, source in sources.items():
                start = time.perf_counter()
                for _ in ahead(source.content, range(len(source)), threads, 64 + threads):
                    pass
                times[name].append(1000 * (time.perf_counter() - start) / len(source))
    return {"threads": threads, "ms": {name: min(taken) for name, taken in times.items()}}


def change(arguments: argparse.Namespace) -> dict[str, Any]:
    """Cosines between both ways on real photos, and mAP where they meet."""
    if arguments.data is None:
        raise SystemExit("say where the photos are, with --data or SOLAR_DATA")
    results: dict[str, Any] = {"model": arguments.model}
    net = retrieval_model(arguments.model, device=arguments.device)
    for name in ("landmarks", "buildings"):
        shards = sorted((arguments.data / name).glob("val-*.tar"))
        if not shards:
            raise SystemExit(f"there is no val-0.tar in {arguments.data / name}")
        for size in arguments.size:
            with tempfile.TemporaryDirectory() as place:
                indexes = {
                    way: filled(
                        Path(place, way), find_photos(shards), model=net, mode=way, size=size
                    )
                    for way in WAYS
                }
                results[f"{name}, {size} pixels"] = compared(indexes)
        print(name, json.dumps(results, indent=1), flush=True)
    return results


def compared(indexes: dict[Way, Index]) -> dict[str, Any]:
    """Cosines of indexes of the same photos, and the mAP of each asked by each."""
    exact, fast = (np.asarray(indexes[way].vectors) for way in WAYS)
    if indexes["exact"].paths != indexes["fast"].paths:
        raise SystemExit("one way reads photos that the other does not")
    cosines = (exact.astype(np.float64) * fast).sum(axis=1)
    labels = [name.split("/")[-2] for name in indexes["exact"].paths]
    rows = {"exact": exact, "fast": fast}
    return {
        "photos": len(cosines),
        "decoder": indexes["fast"].spec.settings["decoder"],
        "failed": len(indexes["fast"].skipped),
        "cosine_min": float(cosines.min()),
        "cosine_mean": float(cosines.mean()),
        "mAP": {
            f"{asked} queries, {among} photos": mean_average_precision(
                rows[asked], rows[among], labels
            )
            for asked, among in pairs()
        },
    }


def pairs() -> Iterator[tuple[Way, Way]]:
    """How queries are decoded, and how the photos among which they look."""
    return ((asked, among) for asked in WAYS for among in WAYS)


def mean_average_precision(
    queries: NDArray[np.float32], database: NDArray[np.float32], labels: list[str]
) -> float:
    """In percent; every photo asks for the others of its place, itself left out."""
    from solar.evaluation.metrics import average_precision, without_junk
    from solar.evaluation.ranks import ranks

    of_row = np.array(labels)
    members = [np.flatnonzero(of_row == label) for label in labels]
    asking = [row for row, alike in enumerate(members) if len(alike) > 1]
    places = ranks(queries[asking], database, [members[row] for row in asking])
    precisions = []
    for row, found in zip(asking, places, strict=True):
        itself = members[row] == row
        precisions.append(average_precision(without_junk(found[~itself], found[itself])))
    return 100 * float(np.mean(precisions))


def main() -> None:
    """Run what was asked for, print it, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--part", choices=("speed", "change", "all"), default="speed")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each way")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--share", type=int, default=1, help="describe one photo of so many")
    parser.add_argument("--model", default=DEFAULT, help="of --part change")
    parser.add_argument("--size", type=int, nargs="+", default=[512, 256], help="of --part change")
    parser.add_argument("--data", type=Path, default=os.environ.get("SOLAR_DATA"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, Any] = {"machine": machine()}
    if arguments.part in ("speed", "all"):
        results |= speed(arguments)
    if arguments.part in ("change", "all"):
        results["change"] = change(arguments)
    print(json.dumps(results, indent=1, ensure_ascii=False))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
