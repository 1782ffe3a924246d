"""Many visitors at once: `python benchmarks/serve.py [--seconds 60] [--clients 64] [--json FILE]`.

For longer, minute by minute, as a picture: `--seconds 600 --plot FILE`.

A server of its own (`solar serve`, no rate limit, since all visitors come from one address) on an
index of 10,000 names. The photos behind them are 200 generated ones under many names, and their
vectors those of the 200 with noise: what is searched is as large as 10,000 photos, what is looked
at is not. The network is a ResNet-18 with second-order attention and random weights, photos 320
pixels, one scale.

Every visitor uploads a photo, searches with it and with a part of it, scrolls on, looks at eight
thumbnails, and searches with one of the photos found; then again. Photos are ranked by similarity
alone: verification would time OpenCV. A 503 is waited out as
`Retry-After` says. Visitors and server share the machine.

Memory is the server's own, without mapped files, looked at every second or so. What the server
keeps on purpose (uploaded queries, pictures, rankings: each within a budget, as its own metrics
tell) grows until it fills its budgets, so flat is what memory less that should be. The first third
of the time is warm-up; the last third over the middle one says whether anything else grows. Of
whole minutes the second is compared with the median of the last five.
"""

import argparse
import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from lib.machine import machine
from lib.memory import own_memory
from lib.over_time import BLUE, GREEN, Curve, draw

DISTINCT = 200
BOUNDARY = "----photo"
MIB = 2**20
SAMPLE = 1.0  # seconds between two looks at the memory


def make_index(root: Path, photos: int) -> tuple[Path, list[bytes]]:
    """An index of so many names, and the photos that visitors upload."""
    import torch

    from solar.demo import toy
    from solar.images import Roots
    from solar.index import Index
    from solar.models import RetrievalConfig, RetrievalNet, fingerprint, save
    from solar.storage.types import DescriptorSpec, Photo

    torch.manual_seed(0)
    config = RetrievalConfig("resnet18", attention={4: 4, 5: 2}, size=320, scales=(1.0,))
    net = RetrievalNet(config).eval()
    save(net, root / "model.safetensors")
    made = toy.write(root / "made", landmarks=DISTINCT // 5, views=5, size=(640, 480))
    rows = net.describe(made)
    names = [f"landmark-{i % DISTINCT // 5:03}/{i:05}.jpg" for i in range(photos)]
    for number, name in enumerate(names):
        (root / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        os.link(made[number % DISTINCT], root / "photos" / name)
    noise = np.random.default_rng(0).standard_normal((photos, net.dim)).astype(np.float32)
    vectors = rows[np.arange(photos) % DISTINCT] + 0.1 * noise / np.sqrt(net.dim)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    facts = DescriptorSpec(
        net.dim,
        str(root / "model.safetensors"),
        fingerprint(net),
        {"size": 320, "scales": [1.0], "orient": True},
    )
    known = [Photo(name, 640, 480) for name in names]
    place = Roots.at(root / "photos")
    Index.create(root / "photos.solar", vectors, known, spec=facts, roots=place).close()
    return root / "photos.solar", [file.read_bytes() for file in made[:40]]


@contextlib.contextmanager
def served(index: Path, *options: str) -> Iterator[tuple[int, str, int]]:
    """A running server: its process, host and port."""
    command = [sys.executable, "-c", "from solar.cli import main; main()", "serve", str(index)]
    command += ["--port", "0", "--rate", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        address = urlsplit(found[0])
        yield process.pid, str(address.hostname), int(address.port or 0)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


class Visitor(threading.Thread):
    """Visits until it is told to stop, and notes how long everything took."""

    def __init__(self, number: int, host: str, port: int, photos: list[bytes]) -> None:
        super().__init__(daemon=True)
        self.chance = np.random.default_rng(number)
        self.connection = http.client.HTTPConnection(host, port, timeout=120)
        self.photos = photos
        self.took: dict[str, list[tuple[float, float]]] = defaultdict(list)  # when, how long
        self.statuses: Counter[str] = Counter()
        self.done = threading.Event()

    def run(self) -> None:
        """Visit again and again."""
        while not self.done.is_set():
            with contextlib.suppress(_RefusedError):
                self._visit()

    def _visit(self) -> None:
        photo = self.photos[self.chance.integers(len(self.photos))]
        frame = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="photo"; filename="a.jpg"'
        body = frame.encode() + b"\r\n\r\n" + photo + f"\r\n--{BOUNDARY}--\r\n".encode()
        kind = f"multipart/form-data; boundary={BOUNDARY}"
        query = json.loads(self._ask("upload", "POST", "/api/v1/queries", body, kind))["id"]
        found = self._search("search", photo=query, k=20)
        x, y = self.chance.integers(0, 200, 2).tolist()
        self._search("search a part", photo=query, k=20, box=[x, y, x + 320, y + 240])
        self._search("scroll on", photo=query, k=20, offset=20)
        for hit in found[:8]:
            self._ask("thumbnail", "GET", hit["thumbnail"])
        chosen = found[int(self.chance.integers(len(found)))]
        self._search("search an indexed photo", photo=chosen["id"], k=20)

    def _search(self, what: str, **asked: Any) -> Any:
        body = json.dumps({"rerank": [], **asked}).encode()
        return json.loads(self._ask(what, "POST", "/api/v1/search", body, "application/json"))[
            "hits"
        ]

    def _ask(
        self, what: str, method: str, path: str, body: bytes | None = None, kind: str = ""
    ) -> bytes:
        """An answer; a 503 is waited out and asked again."""
        while True:
            started = time.perf_counter()
            try:
                self.connection.request(method, path, body, {"Content-Type": kind} if kind else {})
                answer = self.connection.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.statuses[type(error).__name__] += 1
                self.connection.close()
                raise _RefusedError from error
            self.statuses[str(answer.status)] += 1
            if answer.status < 400:
                self.took[what].append((started, time.perf_counter() - started))
                return content
            if answer.status != 503 or self.done.wait(float(answer.headers["Retry-After"])):
                raise _RefusedError


class _RefusedError(Exception):
    """A visit ended early."""


def metrics(host: str, port: int) -> dict[str, float]:
    """The server's own numbers that carry no label."""
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    connection.close()
    pairs = (line.split() for line in lines if "{" not in line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def measure(index: Path, photos: list[bytes], clients: int, seconds: float, queue: int) -> Any:
    """Let visitors loose on a server."""
    with served(index, "--queue", str(queue)) as (process, host, port):
        warm = Visitor(10**6, host, port, photos)
        warm._visit()
        before = own_memory(process)
        visitors = [Visitor(number, host, port, photos) for number in range(clients)]
        started = time.perf_counter()
        for visitor in visitors:
            visitor.start()
        memory = []
        while (elapsed := time.perf_counter() - started) < seconds:
            memory.append((elapsed, own_memory(process) / MIB, kept(metrics(host, port)) / MIB))
            time.sleep(min(SAMPLE, seconds - elapsed))
        for visitor in visitors:
            visitor.done.set()
        for visitor in visitors:
            visitor.join()  # each finishes its visit
        elapsed = time.perf_counter() - started
        numbers = metrics(host, port)
    timed: dict[str, list[tuple[float, float]]] = defaultdict(list)
    statuses: Counter[str] = Counter()
    for visitor in visitors:
        statuses.update(visitor.statuses)
        for what, times in visitor.took.items():
            timed[what] += [(when - started, seconds) for when, seconds in times]
    took = {what: [seconds for _, seconds in times] for what, times in timed.items()}
    answered = sum(map(len, took.values()))
    return {
        "clients": clients,
        "seconds": round(elapsed, 1),
        "requests_a_second": round(answered / elapsed, 1),
        "searches_a_second": round(
            sum(len(times) for what, times in took.items() if "search" in what) / elapsed, 1
        ),
        "statuses": dict(sorted(statuses.items())),
        "ms": {
            what: {
                "requests": len(times),
                **{f"p{q}": round(1000 * float(np.percentile(times, q)), 1) for q in (50, 95, 99)},
            }
            for what, times in took.items()
        },
        "queries_a_forward_pass": round(
            numbers["solar_batch_size_sum"] / numbers["solar_batch_size_count"], 2
        ),
        "memory_MiB": {"before": round(before / MIB), **flatness(np.array(memory)[:, 1:])},
        **by_minute(memory, timed, int(elapsed // 60)),
    }


def by_minute(memory: Any, timed: Any, minutes: int) -> dict[str, Any]:
    """What happened in each whole minute, and the last five over the second."""

    def within(rows: Any, minute: int) -> Any:
        table = np.array(rows)
        return table[table[:, 0] // 60 == minute]

    requests = [row for rows in timed.values() for row in rows]
    found = []
    for minute in range(minutes):
        _, own, caches = within(memory, minute).T
        search, thumbnail = (within(timed[what], minute)[:, 1] for what in ("search", "thumbnail"))
        found.append(
            {
                "memory_MiB": round(float(np.median(own))),
                "without_kept_MiB": round(float(np.median(own - caches))),
                "requests": len(within(requests, minute)),
                "search_ms": round(1000 * float(np.median(search))),
                "thumbnail_ms": round(1000 * float(np.median(thumbnail))),
            }
        )
    if minutes < 7:
        return {"minutes": found}
    last = {
        name: round(float(np.median([m[name] for m in found[-5:]])) / second, 3)
        for name, second in found[1].items()
    }
    return {"minutes": found, "last_five_minutes_over_second": last}


def plot(minutes: list[dict[str, float]], file: Path) -> None:
    """Draw memory, latency and requests, minute by minute."""

    def curve(label: str, name: str, colour: str) -> Curve:
        return label, [minute[name] for minute in minutes], colour

    panels = [
        ("server's memory, MiB", [curve("in all", "memory_MiB", BLUE),
                                  curve("without what is kept", "without_kept_MiB", GREEN)]),
        ("milliseconds, median", [curve("search with a photo", "search_ms", BLUE),
                                  curve("thumbnail", "thumbnail_ms", GREEN)]),
        ("requests a minute", [curve("", "requests", BLUE)]),
    ]  # fmt: skip
    draw(range(1, len(minutes) + 1), panels, file)


def kept(numbers: dict[str, float]) -> float:
    """Bytes that the server says it keeps."""
    return sum(value for name, value in numbers.items() if name.endswith("_bytes"))


def flatness(looks: "np.ndarray[Any, Any]") -> dict[str, Any]:
    """What looks (n, 2) at the memory and at what is kept of it, in MiB, say together."""
    rest = looks[:, 0] - looks[:, 1]
    thirds = [float(np.median(third)) for third in np.array_split(rest, 3)]
    return {
        "most": round(looks[:, 0].max()),
        "kept_at_the_end": round(looks[-1, 1]),
        "without_kept_medians_of_thirds": [round(third) for third in thirds],
        "last_third_over_middle": round(thirds[2] / thirds[1], 3),
        "during": looks[:: len(looks) // 60 or 1, 0].round().astype(int).tolist(),
    }


def main() -> None:
    """Make the index, run, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--photos", type=int, default=10_000)
    parser.add_argument("--queue", type=int, default=64)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="An .svg or .png file.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index, photos = make_index(Path(folder), given.photos)
        found = measure(index, photos, given.clients, given.seconds, given.queue)
    result = {"machine": machine(), "photos": given.photos, "distinct": DISTINCT, **found}
    text = json.dumps(result, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n")
    if given.plot:
        plot(result["minutes"], given.plot)


if __name__ == "__main__":
    main()
