"""A fuzzer that keeps what it learns: `python tests/support/fuzzing.py --seconds 60 --target box`.

Inputs are changed at random: bytes, numbers and words of text, nodes of JSON. An input that reaches
lines of the package that none reached before, or fails for another reason, is changed further. A
few small ones that together reach everything are kept in `tests/support/fuzz_corpus`, and tried
first the next time.

A case is broken if anything but one of the target's own errors comes out, if it takes longer than
`LIMIT` seconds, writes outside its own folder, starts a process or opens a connection. It is made
smaller and kept as `broken-…`, so that the tests fail until it is mended.
"""

import argparse
import copy
import hashlib
import json
import os
import random
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

LIMIT = 30.0  # a busy machine is not the reader's fault
LARGEST = 200_000  # bytes of an input
KEPT = 4096  # and of one that is kept
MEMORY = 12 * 2**30  # that a long run may take: the machine is not to be brought down
CORPUS = Path(__file__).parent / "fuzz_corpus"

_NUMBERS = (
    0,
    1,
    -1,
    2,
    127,
    128,
    255,
    256,
    65535,
    65536,
    2**31 - 1,
    2**31,
    2**32,
    2**63 - 1,
    2**63,
)
_WORDS = (
    *(b"null true false NaN Infinity -Infinity 1e999 -1 0.5 \"\" [] {} [[]] , : \" ' \\".split()),
    *(b"..", b"/", b"../../x", b"/dev/zero", b"\0", b"\n", b"\r\n", b"\t", b"\xff\xfe", b"%s"),
    *("ß é 日本 \u202e ١٢ ²".encode().split()),
    b"\\ud800", b"9" * 5000, b"[" * 1100, b'{"a":' * 1100,
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**70, -(2**63), 0.5, 1e308, -0.0),
    *(
        float("nan"),
        float("inf"),
        "",
        "a",
        "\0",
        "\ud800",
        "..",
        "../../x",
        "/dev/zero",
        "x" * 5000,
    ),
    *([], {}, [[]], [None], {"a": 1}, [1, 2, 3], ["a", "b"], [[1, 2]], "float16", "int8", "O"),
)


@dataclass(frozen=True)
class Target:
    """Something that reads what strangers wrote.

    Attributes:
        seeds: Good inputs to begin with; called once, with an empty folder to prepare things in.
        read: Reads one input. It gets a folder of its own, in which it may write.
        errors: What may come out.
        cases: Fresh ones that the tests try.
    """

    seeds: Callable[[Path], list[bytes]]
    read: Callable[[bytes, Path], object]
    errors: tuple[type[BaseException], ...]
    cases: int = 100


@dataclass(frozen=True)
class Broken:
    """An input that broke the rule, how (the same for all of one cause), and what it said."""

    data: bytes
    how: str
    said: str


class SlowError(BaseException):
    """A case took too long; no `except Exception` may swallow it."""


class OutsideError(BaseException):
    """A case reached for what is not its own."""


# One case.


class Fuzzer:
    """Tries inputs on one target, below a folder."""

    def __init__(self, target: Target, folder: Path, seed: int = 0) -> None:
        self._target, self._dice = target, random.Random(seed)
        self._home = folder / "home"
        self._home.mkdir()
        self._own = folder / "own"
        self.seeds = target.seeds(self._home)
        self._own.mkdir()
        with suppress(*target.errors):  # what is imported meanwhile is neither timed nor traced
            target.read(self.seeds[0], self._own)
        _emptied(self._own)
        self.kept: list[bytes] = []
        self.seen: set[object] = set()
        self.broken: dict[str, Broken] = {}

    def learn(self, inputs: list[bytes]) -> None:
        """Try known inputs, and keep those that show something new."""
        for data in inputs:
            self.attempt(data)

    def fresh(self) -> bytes:
        """An input that is made of known ones."""
        known = self.kept or self.seeds
        return mutate(self._dice.choice(known), known, self._dice)

    def attempt(self, data: bytes, *, keep: bool = True) -> bool:
        """Try one input; whether it kept the rule and showed something new."""
        lines, outcome = self.run(data)
        if isinstance(outcome, Broken):
            self.broken.setdefault(outcome.how, outcome)
            return False
        new = {*lines, outcome} - self.seen
        if new:
            self.seen |= new
            self.kept += [data] if keep else []
        return bool(new)

    def distilled(self) -> list[bytes]:
        """Inputs, small ones first, that together show all that was seen; seeds are not listed."""
        self.seen.clear()
        seeds, known = list(self.seeds), sorted(set(self.kept) - set(self.seeds), key=len)
        self.kept = []
        self.learn(seeds)
        return [data for data in known if self.attempt(data)]

    def run(self, data: bytes) -> tuple[set[tuple[str, int]], str | Broken]:
        """The lines that an input reaches, and what comes out."""
        lines: set[tuple[str, int]] = set()
        try:
            with _limited(LIMIT), _confined(self._own, self._home), _traced(lines):
                self._target.read(data, self._own)
        except self._target.errors as error:
            return lines, f"{type(error).__name__} {_kind(error.__cause__)}"
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)
            own = [frame for frame in frames if "/solar/" in frame.filename] or frames[-1:]
            where = f"{Path(own[-1].filename).name}:{own[-1].lineno}"
            return lines, Broken(data, f"{type(error).__name__} in {where}", str(error)[:200])
        finally:
            _emptied(self._own)
        return lines, "read"

    def smaller(self, broken: Broken, attempts: int = 2000) -> Broken:
        """The same failure from fewer bytes: pieces are left out as long as it stays."""
        data, piece = broken.data, max(len(broken.data) // 2, 1)
        while piece and attempts:
            at = 0
            while at < len(data) and attempts:
                attempts -= 1
                less = data[:at] + data[at + piece :]
                outcome = self.run(less)[1]
                if isinstance(outcome, Broken) and outcome.how == broken.how:
                    data = less
                else:
                    at += piece
            piece //= 2
        return Broken(data, broken.how, broken.said)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise SlowError(f"longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _traced(lines: set[tuple[str, int]]) -> Iterator[None]:
    """Note the lines of the package that run; other frames are not looked at."""

    def line(frame: FrameType, event: str, _: object) -> Any:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return line

    def call(frame: FrameType, *_: object) -> Any:
        name = frame.f_code.co_filename
        return line if "/solar/" in name or name.endswith("test_fuzz.py") else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.settrace(before)


_allowed: tuple[str, ...] = ()
_watching = False
_CHANGES = {
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
    "os.truncate",
    "os.link",
    "os.symlink",
}
_FOREIGN = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect"}


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    """Python tells it of every file that is opened; it cannot be taken off again, only ignored."""
    if not _allowed:
        return
    if event in _FOREIGN:
        raise OutsideError(event)
    writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if (writes or event in _CHANGES) and isinstance(arguments[0], str | bytes | os.PathLike):
        path = os.path.realpath(os.fsdecode(arguments[0]))
        if not path.startswith((*_allowed, "/dev/null")) and "__pycache__" not in path:
            raise OutsideError(f"{event} {path}")


@contextmanager
def _confined(*folders: Path) -> Iterator[None]:
    """Raise an OutsideError where a file outside the folders is written or removed."""
    global _allowed, _watching
    if not _watching:
        sys.addaudithook(_hook)
        _watching = True
    _allowed = tuple(str(folder.resolve()) for folder in folders)
    try:
        yield
    finally:
        _allowed = ()


def _emptied(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def _kind(error: BaseException | None) -> str:
    """What an error says, without what differs from input to input."""
    return " ".join([type(error).__name__, *re.findall(r"[A-Za-z]+", str(error))[:3]])


# Changing inputs.


def mutate(data: bytes, others: list[bytes], dice: random.Random) -> bytes:
    """Change an input in one to four places."""
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        if dice.random() < 0.5 and (changed := _change_json(data, dice)) is not None:
            data = changed
        else:
            data = dice.choice(_CHANGE)(data, others, dice)
    return data[:LARGEST]


def _span(data: bytes, dice: random.Random) -> tuple[int, int]:
    start = dice.randrange(len(data) + 1)
    return start, min(len(data), start + int(dice.expovariate(1 / 8)))


def _set(data: bytes, _: list[bytes], dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + bytes([dice.randrange(256)]) + data[at + 1 :]


def _flip(data: bytes, _: list[bytes], dice: random.Random) -> bytes:
    at = dice.randrange(max(len(data), 1))
    return (
        data[:at] + bytes(b ^ (1 << dice.randrange(8)) for b in data[at : at + 1]) + data[at + 1 :]
    )


def _leave_out(data: bytes, _: list[bytes], dice: random.Random) -> bytes:
    start, end = _span(data, dice)
    return data[:start] + data[end:]


def _cut(data: bytes, _: list[bytes], dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def _repeat(data: bytes, _: list[bytes], dice: random.Random) -> bytes:
    start, end = _span(data, dice)
    return data[:end] + data[start:end] * dice.choice((1, 2, 50)) + data[end:]


def _insert(data: bytes, _: list[bytes], dice: random.Random) -> bytes:
    start, end = _span(data, dice)
    return data[:start] + dice.choice(_WORDS) + data[dice.choice((start, end)) :]


def _number(data: bytes, _: list[bytes], dice: random.Random) -> bytes:
    """Another number, in digits where there are some, else in binary."""
    value, found = dice.choice(_NUMBERS), list(re.finditer(rb"-?\d+", data))
    if found and dice.random() < 0.7:
        start, end = dice.choice(found).span()
        return data[:start] + str(value).encode() + data[end:]
    form = dice.choice(("<H", ">H", "<I", ">I", "<Q", ">Q"))
    packed = struct.pack(form, value % 2 ** (8 * struct.calcsize(form)))
    at = dice.randrange(len(data) + 1)
    return data[:at] + packed + data[at + len(packed) :]


def _join(data: bytes, others: list[bytes], dice: random.Random) -> bytes:
    other = dice.choice(others)
    return data[: dice.randrange(len(data) + 1)] + other[dice.randrange(len(other) + 1) :]


_CHANGE = (_set, _flip, _leave_out, _cut, _repeat, _insert, _insert, _number, _number, _join)


def _change_json(data: bytes, dice: random.Random) -> bytes | None:
    """Put something else in the place of a node; None if this is no JSON."""
    if data[:1] not in (b"{", b"["):
        return None
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    places = list(_places(content))
    if not places:
        return None
    holder, key = dice.choice(places)
    change = dice.randrange(5)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(dice.choice(holder)))
    elif change == 2:
        other, at = dice.choice(places)
        holder[key] = copy.deepcopy(other[at])
    else:
        holder[key] = dice.choice(_VALUES)
    return json.dumps(content).encode()


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield content, key
        if isinstance(value, dict | list):
            yield from _places(value)


# The corpus, and long runs.


def corpus(name: str, kind: str = "kept") -> list[bytes]:
    """What is kept for a target, in a fixed order; or what was `found` once, or is `broken`."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob(f"{kind}-*"))]


def keep(name: str, inputs: list[bytes], broken: list[Broken]) -> None:
    """Replace what is kept for a target; broken cases are added and stay."""
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("kept-*"):
        path.unlink()
    small = [data for data in inputs if len(data) <= KEPT]
    for kind, data in [("kept", d) for d in small] + [("broken", b.data) for b in broken]:
        (folder / f"{kind}-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from support.fuzz_targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=TARGETS, help="All, one after the other, if not given.")
    parser.add_argument("--seconds", type=float, default=60, help="For each target.")
    parser.add_argument("--seed", type=int, default=time.time_ns())
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    worst = 0
    for name in [given.target] if given.target else TARGETS:
        with tempfile.TemporaryDirectory() as folder:
            fuzzer = Fuzzer(TARGETS[name], Path(folder), given.seed)
            fuzzer.learn(fuzzer.seeds + corpus(name))
            known, cases, end = len(fuzzer.seen), 0, time.monotonic() + given.seconds
            while time.monotonic() < end:
                fuzzer.attempt(fuzzer.fresh())
                cases += 1
            found = len(fuzzer.seen) - known
            broken = [fuzzer.smaller(one) for one in fuzzer.broken.values()]
            keep(name, fuzzer.distilled(), broken)
        told = [f"{name}: {cases:,} cases, {found} new lines or errors, {len(broken)} broken"]
        told += [f"  {one.how}: {one.said}\n    {one.data[:200]!r}" for one in broken]
        sys.stdout.write("\n".join(told) + "\n")
        sys.stdout.flush()
        worst = max(worst, len(broken))
    sys.exit(1 if worst else 0)


if __name__ == "__main__":
    main()
