"""Everything at once, for long: `python benchmarks/soak.py [--seconds 3600] [--out F] [--plot F]`.

An index of generated photos is served by `solar serve --writable`, and until the time is up

- visitors search with uploaded photos and with indexed ones, and look at thumbnails,
- one more adds photos through the web API,
- the folder changes: photos are added, edited, renamed and deleted, and `solar index sync`,
  `remove` and `compact` run on the index that is being served,
- the server is killed (SIGKILL) about once a minute and started again, and so is every fourth of
  those commands, at any moment.

Answers are checked: a copy of an indexed photo is found first, a photo that was removed is not
found any more, every status is a success or asks to come back later (429 and 503 with
`Retry-After`). A request that a kill cut off, or a command that another writer kept out, is
counted and tried again. At the end, after a last sync, the index must be sound and hold exactly
what the folder holds, each photo with its own vector.

Every five seconds: the server's memory (without mapped files), answers by status, latency, what
went wrong. The exit code is 1 if anything did.
"""

import argparse
import collections
import http.client
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import numpy as np
from lib.machine import machine
from lib.memory import own_memory
from lib.over_time import BLUE, GREEN, GREY, RED, Curve, draw

SIZE = (160, 120)
LANDMARKS, VIEWS = 12, 4  # photos that stay as they are: what visitors look for
LOOSE = 60  # about so many others come and go
OLD = 60.0  # seconds after which an added photo may be deleted
IDLE = 2.0  # seconds after which a connection is not used again: a server closes idle ones
SAMPLE = 5.0
BOUNDARY = "----photo"
SOLAR = [sys.executable, "-c", "from solar.cli import main; main()"]
BUSY = "Another process is writing"


class CutOffError(Exception):
    """The server was killed while it was asked."""


class Tally:
    """What happened so far; shared by all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.answers: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.took: dict[str, list[float]] = collections.defaultdict(list)
        self.recent: list[float] = []

    def answer(self, what: str, status: str, seconds: float | None = None) -> None:
        """Note an answer, and how long it took if it was a success."""
        with self._lock:
            self.answers[status] += 1
            if seconds is not None:
                self.took[what].append(seconds)
                self.recent.append(seconds)

    def event(self, what: str) -> None:
        """Note something that is allowed to happen."""
        with self._lock:
            self.events[what] += 1

    def wrong(self, what: str) -> None:
        """Note something that must not happen."""
        print(f"wrong: {what}", file=sys.stderr, flush=True)
        with self._lock:
            self.errors[re.sub(r"[0-9a-f]{16}|\d+", "…", what)[:200]] += 1

    def look(self) -> tuple[list[float], Counter[str], int]:
        """Latencies since the last look, and answers and errors so far."""
        with self._lock:
            recent, self.recent = self.recent, []
            return recent, Counter(self.answers), self.errors.total()


class Server:
    """`solar serve` as a child that is killed and started again."""

    def __init__(self, index: Path, scratch: Path, tally: Tally) -> None:
        self._index, self._tally, self.log = index, tally, scratch / "server.log"
        self._environment = {**os.environ, "TMPDIR": str(scratch), "OMP_NUM_THREADS": "1"}
        self.life = 0  # odd while it runs, another number after every start and kill
        self.process: subprocess.Popen[str] | None = None
        self.host, self.port = "", 0

    def start(self) -> None:
        """Start it on a free port."""
        command = [*SOLAR, "serve", str(self._index), "--writable", "--port", "0", "--rate", "60"]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=self._environment
            )
        assert self.process.stdout is not None
        found = re.search(r"http://\S+", self.process.stdout.readline())
        if found is None:
            raise RuntimeError(f"the server did not start: {self.log.read_text()[-2000:]}")
        address = urlsplit(found[0])
        self.host, self.port = str(address.hostname), int(address.port or 0)
        self.life += 1

    def kill(self) -> None:
        """Kill it without a warning."""
        self.life += 1
        assert self.process is not None
        if self.process.poll() is not None:
            self._tally.wrong(f"the server ended by itself with {self.process.returncode}")
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ask it to stop, as at the end of a day."""
        assert self.process is not None
        self.life += 1
        self.process.terminate()
        if self.process.wait(timeout=120) != 0:
            self._tally.wrong(f"the server stopped with {self.process.returncode}")


class Visitor:
    """Asks a server over HTTP, checks statuses, and waits where it is told to."""

    def __init__(self, server: Server, tally: Tally, done: threading.Event) -> None:
        self.server, self.tally, self.done = server, tally, done
        self._connection: http.client.HTTPConnection | None = None
        self._life, self._used = -1, 0.0

    def ask(
        self, what: str, method: str, path: str, body: bytes | None = None, kind: str = ""
    ) -> Any:
        """The JSON, or the bytes, of an answer.

        Raises:
            CutOffError: The server was killed meanwhile, or the answer is an error, which is noted.
        """
        while True:
            status, wait, content = self._once(what, method, path, body, kind)
            if status < 300:
                return json.loads(content) if content[:1] in b"{[" else content
            if wait is None or status not in (429, 503):
                self.tally.wrong(f"{what}: {status} {content[:150].decode(errors='replace')}")
                raise CutOffError
            if self.done.wait(float(wait)):
                raise CutOffError

    def _once(
        self, what: str, method: str, path: str, body: bytes | None, kind: str
    ) -> tuple[int, str | None, bytes]:
        life = self.server.life
        if life % 2 == 0:
            time.sleep(0.2)
            raise CutOffError
        started = time.perf_counter()
        idle = started - self._used > IDLE
        if self._life != life or self._connection is None or idle:
            self._connection = http.client.HTTPConnection(
                self.server.host, self.server.port, timeout=120
            )
            self._life = life
        try:
            self._connection.request(method, path, body, {"Content-Type": kind} if kind else {})
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection = None
            if self.server.life == life:
                self.tally.wrong(f"{what}: {type(error).__name__}: {error}")
            self.tally.answer(what, "cut off")
            raise CutOffError from error
        self._used = time.perf_counter()
        seconds = self._used - started if answer.status < 300 else None
        self.tally.answer(what, str(answer.status), seconds)
        return answer.status, answer.headers["Retry-After"], content

    def upload(self, what: str, path: str, field: str, photos: list[bytes]) -> Any:
        """Send photos as a form."""
        body = b""
        for photo in photos:
            # A name that never comes again: a deleted photo's name must not be found any more.
            file = f"{time.time_ns()}.jpg"
            head = f'Content-Disposition: form-data; name="{field}"; filename="{file}"'
            body += f"--{BOUNDARY}\r\n{head}\r\n\r\n".encode() + photo + b"\r\n"
        body += f"--{BOUNDARY}--\r\n".encode()
        return self.ask(what, "POST", path, body, f"multipart/form-data; boundary={BOUNDARY}")

    def search(self, what: str, photo: str) -> list[Any]:
        """Hits for an uploaded or indexed photo."""
        body = json.dumps({"photo": photo, "k": 20, "rerank": []}).encode()
        found = self.ask(what, "POST", "/api/v1/search", body, "application/json")
        return list(found["hits"])

    def look_for(self, photo: bytes) -> list[Any]:
        """Hits for a photo that is uploaded for it."""
        query = self.upload("upload a query", "/api/v1/queries", "photo", [photo])["id"]
        return self.search("search", query)

    def visit(self, files: dict[str, bytes], dice: random.Random) -> None:
        """Look for one of the photos that stay, by a copy or by its number."""
        name = dice.choice(sorted(files))
        if dice.random() < 0.5:
            hits = self.look_for(files[name])
            if not hits or hits[0]["name"] != name:
                self.tally.wrong(f"a copy of {name} finds {[hit['name'] for hit in hits[:3]]}")
            staying = [hit for hit in hits if hit["name"] in files]
            for hit in staying[:3]:
                if self.ask("thumbnail", "GET", hit["thumbnail"])[:2] != b"\xff\xd8":
                    self.tally.wrong("a thumbnail is not a JPEG file")
        else:
            life = self.server.life
            page = self.ask("browse", "GET", f"/api/v1/photos?search={quote(name)}")
            if page["total"] != 1:
                self.tally.wrong(f"{name} is listed {page['total']} times")
            hits = self.search("search an indexed photo", page["photos"][0]["id"])
            if self.server.life == life and not any(hit["name"] in files for hit in hits):
                self.tally.wrong(f"{name} finds no other view of its landmark")


class Adding:
    """Photos that come through the web API."""

    def __init__(self, visitor: Visitor, fresh: Callable[[], bytes]) -> None:
        self._visitor, self._fresh = visitor, fresh

    def add(self) -> None:
        """Add a few, wait until they are indexed, and find one of them."""
        visitor, photos = self._visitor, [self._fresh() for _ in range(random.randint(1, 3))]
        life = visitor.server.life
        job = visitor.upload("add photos", "/api/v1/photos", "photos", photos)["job"]
        while True:
            if visitor.server.life != life:
                raise CutOffError  # with its jobs; the photos may be indexed or not
            state = visitor.ask("ask for a job", "GET", f"/api/v1/jobs/{job}")
            if state["state"] == "done":
                break
            time.sleep(0.3)
        for failed in state["failed"]:
            busy = BUSY in failed["error"]
            (visitor.tally.event if busy else visitor.tally.wrong)(
                "a photo was not added: another writer" if busy else f"not added: {failed}"
            )
        if state["done"] != state["total"] or not (state["failed"] or state["added"]):
            visitor.tally.wrong(f"a job says {state}")
        if not state["failed"]:
            visitor.tally.event("photos added through the web")
            hits = visitor.look_for(photos[0])
            if visitor.server.life == life and hits[0]["id"] not in state["added"]:
                visitor.tally.wrong("a photo that was added is not found first")


class Folder:
    """Photos that come and go in the folder, and the commands that follow them."""

    def __init__(
        self, visitor: Visitor, folder: Path, index: Path, scratch: Path, fresh: Callable[[], bytes]
    ) -> None:
        self._visitor, self._tally = visitor, visitor.tally
        self._folder, self._index, self._scratch = folder, index, scratch
        self._fresh, self._dice = fresh, random.Random(1)
        self._number = 0
        self._gone: deque[tuple[str, bytes]] = deque(maxlen=3)

    def change(self) -> None:
        """Change a few files, then let the index follow."""
        crowd = self.loose()
        for name in self._dice.sample(crowd, max(len(crowd) - LOOSE, 0)):
            self._delete(name)
        for _ in range(self._dice.randint(2, 6)):
            loose = self.loose()
            change = self._dice.choice(("add", "delete", "edit", "rename"))
            if change == "add" or not loose:
                self._write(self._new_name())
            elif change == "edit":
                self._write(self._dice.choice(loose))
            elif change == "rename":
                (self._folder / self._dice.choice(loose)).rename(self._folder / self._new_name())
            else:
                self._delete(self._dice.choice(loose))
            self._tally.event(f"{change} a file")
        command = self._dice.choice(("sync", "sync", "sync", "remove", "compact"))
        if command == "remove":
            self._remove()
        elif self.run(command) and command == "sync":
            for name, photo in self._gone:
                if (self._folder / name).exists():  # a server went on with an upload of that name
                    self._tally.event("a deleted name was given again")
                else:
                    self._expect_gone(name, photo, "deleted")
            self._gone.clear()

    def loose(self) -> list[str]:
        """Names of the photos that may change: those that were added a while ago."""
        before = time.time() - OLD
        files = [path for part in ("loose", "uploads") for path in self._folder.glob(f"{part}/*")]
        old = [path for path in files if "loose" in path.parts or path.stat().st_mtime < before]
        return sorted(path.relative_to(self._folder).as_posix() for path in old)

    def run(self, command: str, *arguments: str, kill: bool = True) -> bool:
        """Run `solar index …`, or kill it on the way; whether it did its work."""
        child = subprocess.Popen(
            [*SOLAR, "index", command, str(self._index), *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "NO_COLOR": "1"},
        )
        patience = self._dice.uniform(1, 8) if kill and self._dice.random() < 0.25 else 300
        try:
            said = child.communicate(timeout=patience)[1]
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            if patience == 300:
                self._tally.wrong(f"index {command} took more than {patience} s")
            self._tally.event(f"index {command} killed")
            return False
        if child.returncode == 2 and BUSY in " ".join(said.split()):
            self._tally.event(f"index {command} kept out by another writer")
        elif child.returncode:
            self._tally.wrong(f"index {command} ended with {child.returncode}: {said[-300:]}")
        else:
            self._tally.event(f"index {command}")
        return child.returncode == 0

    def _remove(self) -> None:
        """Remove a photo whose file stays, and restore it; the next sync takes it in again."""
        from solar.index import Index

        with Index.open(self._index) as opened:
            known = [name for name in self.loose() if name in opened]
        if known:
            name = self._dice.choice(known)
            photo = (self._folder / name).read_bytes()
            if self.run("remove", name):
                self._expect_gone(name, photo, "removed")
                self.run("restore", name)

    def _expect_gone(self, name: str, photo: bytes, how: str) -> None:
        if name in [hit["name"] for hit in self._visitor.look_for(photo)]:
            self._tally.wrong(f"{name} is found after it was {how}")

    def _delete(self, name: str) -> None:
        self._gone.append((name, (self._folder / name).read_bytes()))
        (self._folder / name).unlink()

    def _new_name(self) -> str:
        self._number += 1
        return f"loose/{self._number:05}.jpg"

    def _write(self, name: str) -> None:
        part = self._scratch / "part"
        part.write_bytes(self._fresh())
        part.replace(self._folder / name)


class Drawing:
    """Photos that nobody has seen yet, drawn by whoever asks."""

    def __init__(self) -> None:
        self._lock, self._next = threading.Lock(), 1000

    def __call__(self) -> bytes:
        """The next one, as a JPEG file."""
        from solar.demo import toy

        with self._lock:
            self._next += 1
            number = self._next
        encoded = BytesIO()
        toy.landmark(number, 0, size=SIZE).save(encoded, "JPEG", quality=90)
        return encoded.getvalue()


def soak(root: Path, seconds: float, clients: int, kill_every: float) -> dict[str, Any]:
    """Do everything at once below a folder, and tell what happened."""
    from solar.demo import toy

    folder, index, scratch = root / "photos", root / "photos.solar", root / "scratch"
    files = toy.write(folder, landmarks=LANDMARKS, views=VIEWS, size=SIZE)
    staying = {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}
    scratch.mkdir()
    fresh, tally, done = Drawing(), Tally(), threading.Event()
    for number in range(20):
        (folder / "loose").mkdir(exist_ok=True)
        (folder / "loose" / f"first-{number:02}.jpg").write_bytes(fresh())
    build = [*SOLAR, "index", "build", str(folder), "-o", str(index), "--size", str(SIZE[0])]
    subprocess.run(build, check=True, capture_output=True)

    server = Server(index, scratch, tally)
    server.start()

    def visitor() -> Visitor:
        return Visitor(server, tally, done)

    changing = Folder(visitor(), folder, index, scratch, fresh)
    adding = Adding(visitor(), fresh)

    def kills() -> None:
        if not done.wait(kill_every * random.uniform(0.8, 1.2)):
            server.kill()
            tally.event("server killed")
            server.start()

    def visits(number: int) -> Callable[[], None]:
        dice, one = random.Random(number), visitor()
        return lambda: one.visit(staying, dice)

    works = [kills, changing.change, adding.add, *(visits(number) for number in range(clients))]
    pauses = [0.0, 3.0, 3.0, *([0.05] * clients)]
    threads = [
        threading.Thread(target=_repeat, args=(work, pause, done, tally))
        for work, pause in zip(works, pauses, strict=True)
    ]
    for thread in threads:
        thread.start()
    samples = _watch(server, tally, seconds)
    done.set()
    for thread in threads:
        thread.join()
    server.stop()
    _judge(changing, folder, index, tally)
    if "Traceback" in server.log.read_text():
        tally.wrong(f"the server logged {server.log.read_text()[-1500:]}")
    return _report(tally, samples)


def _repeat(work: Callable[[], None], pause: float, done: threading.Event, tally: Tally) -> None:
    while not done.wait(pause):
        try:
            work()
        except CutOffError:
            continue
        except Exception as error:
            traceback.print_exc()
            tally.wrong(f"{type(error).__name__}: {error}")


def _watch(server: Server, tally: Tally, seconds: float) -> list[dict[str, Any]]:
    """Look every five seconds until the time is up."""
    samples: list[dict[str, Any]] = []
    started, (_, answers, errors) = time.perf_counter(), tally.look()
    while (elapsed := time.perf_counter() - started) < seconds:
        time.sleep(min(SAMPLE, seconds - elapsed))
        recent, now, wrong = tally.look()
        assert server.process is not None
        samples.append(
            {
                "second": round(time.perf_counter() - started, 1),
                "server": (server.life + 1) // 2,
                "memory_MiB": round(own_memory(server.process.pid) / 2**20),
                "ms": _percentiles(recent),
                "answers": dict(sorted((now - answers).items())),
                "errors": wrong - errors,
            }
        )
        answers, errors = now, wrong
    return samples


def _judge(changing: Folder, folder: Path, index: Path, tally: Tally) -> None:
    """After a last sync: is the index sound, and true to the folder?"""
    from solar.index import Index

    if not changing.run("sync", kill=False):
        tally.wrong("the last sync failed")
    held = {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
    }
    with Index.open(index) as opened:
        for problem in opened.check():
            tally.wrong(f"the index is not sound: {problem}")
        names = {photo.path for batch in opened.engine.photos() for photo in batch}
        for what, some in (("lacks", set(held) - names), ("still has", names - set(held))):
            if some:
                tally.wrong(f"the index {what} {len(some)} photos: {sorted(some)[:3]}")
        for name in sorted(names & set(held)):
            best = opened.search(held[name].read_bytes(), k=1)[0]
            if best.path != name and held[best.path].read_bytes() != held[name].read_bytes():
                tally.wrong(f"at the end {name} is found as {best.path}")
    tally.events["photos at the end"] = len(names)


def _percentiles(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    return {f"p{q}": round(1000 * float(np.percentile(seconds, q)), 1) for q in (50, 95, 99)}


def _report(tally: Tally, samples: list[dict[str, Any]]) -> dict[str, Any]:
    memory = [sample["memory_MiB"] for sample in samples if sample["memory_MiB"]]
    thirds = [float(np.median(third)) for third in np.array_split(memory, 3) if len(third)]
    return {
        "answers": dict(sorted(tally.answers.items())),
        "events": dict(sorted(tally.events.items())),
        "errors": dict(tally.errors),
        "ms": {what: {"requests": len(took), **_percentiles(took)}
               for what, took in sorted(tally.took.items())},
        "memory_MiB": {"most": max(memory, default=0), "medians_of_thirds": thirds},
        "samples": samples,
    }  # fmt: skip


def plot(result: dict[str, Any], file: Path) -> None:
    """Draw memory, latency and errors over time."""
    samples = result["samples"]
    errors = np.cumsum([sample["errors"] for sample in samples])
    cut_off = np.cumsum([sample["answers"].get("cut off", 0) for sample in samples])
    panels: list[tuple[str, list[Curve]]] = [
        ("server's memory, MiB", [("", [s["memory_MiB"] or None for s in samples], BLUE)]),
        ("milliseconds per answer", [("median", [s["ms"].get("p50") for s in samples], GREEN),
                                     ("p95", [s["ms"].get("p95") for s in samples], BLUE)]),
        ("so far", [("wrong", errors.tolist(), RED), ("cut off by kills", cut_off.tolist(), GREY)]),
    ]  # fmt: skip
    draw([sample["second"] / 60 for sample in samples], panels, file)


def main() -> None:
    """Soak, print, save, draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--kill-every", type=float, default=60, help="Seconds, about.")
    parser.add_argument("--out", type=Path, help="A JSON file.")
    parser.add_argument("--plot", type=Path, help="An .svg or .png file.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        found = soak(Path(root), given.seconds, given.clients, given.kill_every)
    asked = {"seconds": given.seconds, "clients": given.clients, "kill_every": given.kill_every}
    result = {"machine": machine(), **asked, **found}
    short = json.dumps({**result, "samples": None}, indent=1)
    print(short)
    if given.out:
        lines = ",\n  ".join(json.dumps(sample) for sample in found["samples"])
        given.out.write_text(short.replace("null\n}", f"[\n  {lines}\n ]\n}}\n"))
    if given.plot:
        plot(result, given.plot)
    sys.exit(1 if found["errors"] else 0)


if __name__ == "__main__":
    main()
