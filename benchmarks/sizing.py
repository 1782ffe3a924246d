"""What so many photos take, from what was measured: `python benchmarks/sizing.py`.

Reads `benchmarks/results/*.json` and writes the tables between the `sizing` marks of
`docs/beyond-one-machine.md`. Nothing is measured here: times are multiplied by the number of
photos, and sizes by the bytes that one photo was seen to take.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.marked import KEPT, fill, table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "beyond-one-machine.md"
RESULTS = ROOT / "benchmarks" / "results"
MARK = "sizing"
PHOTOS = (100_000, 1_000_000, 10_000_000, 100_000_000)
# Length of descriptors, and how the results of a network with such are called at the end.
CPU = {2048: "describe_cpu", 512: "describe_cpu-solar-lite0"}
GPU = {2048: "describe_gpu", 512: "describe_gpu-solar-lite0"}
# What `decode_gpu.json` calls the run of such a network over files of 12 megapixels.
LARGE_FILES = {2048: "ResNet-101, 4032×3024", 512: "solar-lite0, 4032×3024"}
KINDS = ("none", "fp16", "pq", "ivf")


@dataclass(frozen=True)
class Measured:
    """The figures that everything follows from.

    Attributes:
        parts: Bytes per photo: dim to kind to `vectors`, `codes`, `metadata`.
        gpu: Seconds a photo from JPEG files on one GPU, by the length of descriptors.
        large: The same from files of 12 megapixels with `--fast`; may be empty.
        cpu: Seconds a photo on two cores, by the same.
        exact: Seconds of an exact query, and bytes of the vectors that it reads.
        codes: Seconds of a query with codes, and bytes of the codes that it reads.
        memory: MiB that an extraction holds, whatever the number of photos.
        where: Machines and dates, in words.
    """

    parts: dict[int, dict[str, dict[str, float]]]
    gpu: dict[int, float]
    large: dict[int, float]
    cpu: dict[int, float]
    exact: tuple[float, float]
    codes: tuple[float, float]
    memory: float
    where: str


def read(folder: Path = RESULTS) -> Measured:
    """Gather the figures of the benchmarks that were run."""
    sizes, search, memory = (
        json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("index_bytes", "search_million", "build_memory")
    )
    dim, rows, single = search["dim"], search["rows"], search["single"]
    vectors = 4 * dim * rows
    gpu: dict[int, float] = {}
    cpu: dict[int, float] = {}
    where = []
    for length, name in CPU.items():
        if told := _perhaps(folder / f"{name}.json"):
            [spent] = [row["fastest"] for row in told["rows"] if row["backend"] == "openvino-bf16"]
            cpu[length] = spent / told["machine"]["cores"]
            where.append(_machine(told))
        if told := _perhaps(folder / f"{GPU[length]}.json"):
            gpu[length] = told["end_to_end_ms_a_photo"] / 1000
            where.append(_machine(told))
    large: dict[int, float] = {}
    if told := _perhaps(folder / "decode_gpu.json"):
        runs = {length: told[name] for length, name in LARGE_FILES.items() if name in told}
        large = {length: run["fast"]["ms"] / 1000 for length, run in runs.items()}
        where.append(_machine(told))
    return Measured(
        {int(dim): kinds for dim, kinds in sizes["bytes_a_photo"].items()},
        gpu,
        large,
        cpu,
        (single["exact_ms"] / 1000, vectors),
        (single["small_ms"] / 1000, vectors / single["bytes_ratio"]),
        max(row["peak_MiB"] for row in memory["rows"]),
        " and ".join(dict.fromkeys(where)),
    )


def _perhaps(path: Path) -> dict[str, Any]:
    """What a benchmark wrote; nothing where nobody ran it."""
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return told


def _machine(result: dict[str, Any]) -> str:
    told = result["machine"]
    what = told["accelerator"] or f"{told['cores']} cores of an {told['processor']}"
    return f"{what}, {told['date']}"


def render(found: Measured) -> str:
    """All the tables, as Markdown."""
    said = [
        "Bytes per photo in an index: on disk, and the part of it that a search keeps in memory.",
        kinds_table(found),
        "`solar-r101`, 2048 numbers per photo:",
        photos_table(found, 2048),
        "`solar-lite0`, 512 numbers per photo:",
        photos_table(found, 512),
        f"Describing takes {found.memory:.0f} MiB of memory with a small network, for any number "
        f"of photos. Measured: {found.where}; “–” means not measured.",
    ]
    return "\n\n".join(said) + "\n"


def kinds_table(found: Measured) -> str:
    """A row a kind of index: what a photo takes on disk and in memory."""
    dims = sorted(found.parts)
    heads = [f"{dim} numbers, {where}" for dim in dims for where in ("disk", "memory")]
    rows = []
    for kind in KINDS:
        cells = []
        for dim in dims:
            parts = found.parts[dim][kind]
            cells += [f"{sum(parts.values()):,.0f}", f"{parts['codes']:,.0f}"]
        rows.append([f"`{kind}`", *cells])
    return _table(["`--compress`", *heads], rows)


def photos_table(found: Measured, dim: int) -> str:
    """A row a number of photos."""
    heads = ["photos", "disk, `none`", "disk, `fp16`", "disk, `pq`", "memory, `pq`"]
    heads += ["describing, two cores", "describing, one H200"]
    heads += ["the same, 12-megapixel files, `--fast`"] if found.large else []
    heads += ["a query, exact", "a query, `pq`"]
    rows = []
    for photos in PHOTOS:
        none, half, small = (found.parts[dim][kind] for kind in ("none", "fp16", "pq"))
        cells = [size(photos * sum(parts.values())) for parts in (none, half, small)]
        cells.append(size(photos * small["codes"]))
        times = [found.cpu.get(dim), found.gpu.get(dim)]
        times += [found.large.get(dim)] if found.large else []
        for seconds in times:
            cells.append(time(photos * seconds) if seconds else "–")
        cells.append(query(photos * none["vectors"], *found.exact))
        cells.append(query(photos * small["codes"], *found.codes))
        rows.append([f"{photos:,}", *cells])
    return _table(heads, rows)


def query(read: float, seconds: float, measured: float) -> str:
    """How long a query takes that reads so many bytes, by one that was measured.

    With fewer bytes it takes less, nobody measured how much less; with more it is extrapolated.
    """
    times = read / measured
    if times < 0.9:
        return f"<{KEPT}{time(seconds)}"
    return f"≈{KEPT}{time(times * seconds)}" if times > 1.1 else time(seconds)


def size(count: float) -> str:
    """Bytes in a unit that people read."""
    return _in_units(count, {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12})


def time(seconds: float) -> str:
    """A duration in a unit that people read."""
    day = 86_400
    units = {"ms": 1e-3, "s": 1, "min": 60, "h": 3600, "days": day, "years": 365 * day}
    return _in_units(seconds, units)


def _in_units(value: float, units: dict[str, float]) -> str:
    """A value in the largest unit of which it is at least one."""
    smallest = next(iter(units))
    unit = [smallest, *(unit for unit, worth in units.items() if value >= worth)][-1]
    return f"{_digits(value / units[unit])}{KEPT}{unit}"


def _digits(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return table([heads, ["---", *["---:"] * (len(heads) - 1)], *rows])


def main() -> None:
    """Write the tables into the page, or print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--print", action="store_true", help="leave the page as it is")
    content = render(read())
    if parser.parse_args().print:
        print(content)
    else:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(fill(page, MARK, content), encoding="utf-8")


if __name__ == "__main__":
    main()
