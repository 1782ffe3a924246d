"""Damaged inputs for readers of untrusted files, and the rule that every reader must keep.

An input is read, or refused by one of the reader's own errors. Anything else breaks the rule: other
exceptions, a hang, a file outside the reader's own folder, a process, a connection.
"""

import copy
import json
import os
import re
import shutil
import signal
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

HANGS = 60  # seconds
LARGEST = 200_000  # bytes of an input
CORPUS = Path(__file__).parent / "fuzz_corpus"

_WORDS = (
    *(b'null true false NaN Infinity -Infinity 1e999 -1 0.5 "" [] {} [[]] , : " \' \\'.split()),
    *(b"..", b"/", b"../../x", b"/dev/zero", b"\0", b"\n", b"\r\n", b"\t", b"\xff\xfe", b"%s"),
    *("ß é 日本 \u202e ١٢ ²".encode().split()),
    *(b"\\ud800", b"9" * 5000, b"[" * 1100, b'{"a":' * 1100),
)
_NUMBERS = st.sampled_from(
    [0, 1, -1, 2, 127, 128, 255, 256, 65535, 65536, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63]
)
_VALUES = st.one_of(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    st.sampled_from(["\ud800", "..", "../../x", "/dev/zero", "x" * 5000, "float16", "int8", "O"]),
    st.sampled_from([2**31, 2**63, 2**70, -(2**63), 1e308]),
    st.sampled_from([[], {}, [[]], [None], {"a": 1}, [1, 2, 3], ["a", "b"], [[1, 2]]]),
)


@dataclass(frozen=True)
class Target:
    """Something that reads untrusted input.

    Attributes:
        seeds: Good inputs to begin with; called once, with an empty folder to prepare things in.
        read: Reads one input. It gets a folder of its own, in which it may write.
        errors: What may come out.
        cases: Damaged inputs that the tests try.
    """

    seeds: Callable[[Path], list[bytes]]
    read: Callable[[bytes, Path], object]
    errors: tuple[type[BaseException], ...]
    cases: int = 100


def attempt(target: Target, data: bytes, own: Path, home: Path) -> None:
    """Read one input in an empty folder `own`; raises if that breaks the rule."""
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir()
    with warnings.catch_warnings(), _hang_noticed(), _confined(own, home):
        warnings.simplefilter("ignore")
        with suppress(*target.errors):
            target.read(data, own)


def kept(name: str) -> list[bytes]:
    """Inputs of earlier runs: those that broke the rule once, and those that reach far."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]


# Damage.


@st.composite
def damaged(draw: st.DrawFn, inputs: list[bytes]) -> bytes:
    """One of the inputs, changed in one to four places."""
    data = draw(st.sampled_from(inputs))
    for _ in range(draw(st.integers(1, 4))):
        change = draw(st.sampled_from([_byte, _cut, _repeat, _word, _number, _node, _node]))
        data = change(draw, data)
    return data[:LARGEST]


def _place(draw: st.DrawFn, data: bytes) -> int:
    return draw(st.integers(0, len(data)))


def _byte(draw: st.DrawFn, data: bytes) -> bytes:
    at = _place(draw, data)
    return data[:at] + draw(st.binary(min_size=1, max_size=1)) + data[at + 1 :]


def _cut(draw: st.DrawFn, data: bytes) -> bytes:
    start = _place(draw, data)
    return data[:start] + data[start + draw(st.integers(1, 40) | st.just(len(data))) :]


def _repeat(draw: st.DrawFn, data: bytes) -> bytes:
    start = _place(draw, data)
    piece = data[start : start + draw(st.integers(1, 40))]
    return data[:start] + piece * draw(st.sampled_from([2, 3, 50])) + data[start + len(piece) :]


def _word(draw: st.DrawFn, data: bytes) -> bytes:
    start = _place(draw, data)
    return data[:start] + draw(st.sampled_from(_WORDS)) + data[start + draw(st.integers(0, 8)) :]


def _number(draw: st.DrawFn, data: bytes) -> bytes:
    """Another number, in digits where there are some, else in binary."""
    value, found = draw(_NUMBERS), list(re.finditer(rb"-?\d+", data))
    if found and draw(st.booleans()):
        start, end = draw(st.sampled_from(found)).span()
        return data[:start] + str(value).encode() + data[end:]
    form = draw(st.sampled_from(["<H", ">H", "<I", ">I", "<Q", ">Q"]))
    packed = struct.pack(form, value % 2 ** (8 * struct.calcsize(form)))
    at = _place(draw, data)
    return data[:at] + packed + data[at + len(packed) :]


def _node(draw: st.DrawFn, data: bytes) -> bytes:
    """Replace, repeat or delete a node of JSON; other inputs get a word instead."""
    try:
        content = json.loads(data) if data[:1] in (b"{", b"[") else None
    except (ValueError, RecursionError):
        content = None
    places = list(_places(content)) if content else []
    if not places:
        return _word(draw, data)
    holder, key = draw(st.sampled_from(places))
    change = draw(st.sampled_from(["value", "value", "other", "repeat", "delete"]))
    if change == "delete":
        del holder[key]
    elif change == "repeat" and isinstance(holder, list):
        holder.insert(key, copy.deepcopy(holder[key]))
    elif change == "other":
        other, at = draw(st.sampled_from(places))
        holder[key] = copy.deepcopy(other[at])
    else:
        holder[key] = draw(_VALUES)
    return json.dumps(content).encode()


def _places(content: Any) -> Iterator[tuple[Any, Any]]:
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        yield content, key
        if isinstance(value, dict | list):
            yield from _places(value)


# The rule.


class HangsError(BaseException):
    """No `except Exception` may swallow it."""


class OutsideError(BaseException):
    """A reader reached for what is not its own."""


@contextmanager
def _hang_noticed() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise HangsError(f"no answer within {HANGS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(HANGS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


_allowed: tuple[str, ...] = ()
_watching = False
_CHANGES = {
    f"os.{name}" for name in ["remove", "rename", "mkdir", "rmdir", "truncate", "link", "symlink"]
}
_FOREIGN = {"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "socket.connect"}


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    """Python calls it for every file that is opened; it cannot be taken off again, only ignored."""
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
    global _allowed, _watching
    if not _watching:
        sys.addaudithook(_hook)
        _watching = True
    _allowed = tuple(str(folder.resolve()) for folder in folders)
    try:
        yield
    finally:
        _allowed = ()
