"""Addresses and options of a Milvus collection.

An address names the collection and its options:

```
milvus://host:19530/photos                      a collection on a server or a cluster
milvus://host/photos?index=HNSW&shards=4        options of `Options`, after a question mark
milvus:///data/photos.db                        Milvus Lite: a local file that ends in .db
milvus://./photos.db?collection=holidays        … below the current folder, another collection
```
"""

import os
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from solar.errors import SolarError

TOKEN = "SOLAR_MILVUS_TOKEN"
"""Environment variable with `user:password` or an API key: safer than one in the address."""

CONSISTENCIES = ("Strong", "Session", "Bounded", "Eventually")
BY_TAG = "tag:"

Params: TypeAlias = Mapping[str, str | int | float]

_BUILD = ("M", "efConstruction", "nlist", "m", "nbits", "sq_type", "refine", "refine_type")
_SEARCH = ("ef", "nprobe", "search_list", "refine_k", "reorder_k")
# Options of a connection, not of the collection itself.
_PATIENCE = ("timeout", "retries", "wait")
_READING = ("consistency", *_PATIENCE)

_DEFAULT_PORT = 19530
_NAME = re.compile(r"[A-Za-z_]\w{0,199}", re.ASCII)


@dataclass(frozen=True)
class Place:
    """Where a collection is."""

    uri: str  # what `pymilvus` connects to
    collection: str
    database: str = ""  # of the server; empty for its default
    token: str = field(default="", repr=False)  # `user:password` or an API key
    options: Mapping[str, str] = field(default_factory=dict)  # as written; see `read_options`
    file: str = ""  # of Milvus Lite; empty for a server

    @property
    def server(self) -> str:
        """Name for messages."""
        return self.file or self.uri.split("://")[1]

    def __str__(self) -> str:
        return f"milvus://{self.server}/{self.collection}"


@dataclass(frozen=True)
class Options:
    """How a collection is made and used.

    Attributes:
        index: `FLAT` compares with every photo, exactly. Others approximate: `HNSW`, `IVF_FLAT`,
            `IVF_SQ8`, `IVF_PQ`, or any other that the server has.
        build: Parameters of the index, such as `M`, `efConstruction`, `nlist`, `m` or `sq_type`.
        search: Parameters of a search, such as `ef` or `nprobe`.
        partition: `none`; `hash` spreads photos evenly by path; `tag:country/` groups photos by
            their tag that begins with `country/`, and a search for one reads only its partition.
        partitions: Number of partitions.
        shards: Number of streams for writes.
        replicas: Number of copies in memory, each on its own query nodes.
        consistency: `Strong` sees everything written before; `Session` what this process wrote;
            `Bounded` may be seconds behind; `Eventually` has no guarantee.
        timeout: Seconds per call.
        retries: How often a call is repeated if the server does not answer.
        wait: Seconds to wait until a new or released collection is indexed and in memory.
    """

    index: str = "FLAT"
    build: Params = field(default_factory=dict)
    search: Params = field(default_factory=dict)
    partition: str = "none"
    partitions: int = 16
    shards: int = 1
    replicas: int = 1
    consistency: str = "Strong"
    timeout: float = 30.0
    retries: int = 5
    wait: float = 3600.0

    def build_params(self, dim: int) -> Params:
        """Parameters of the index over vectors of length `dim`, with defaults."""
        defaults: dict[str, str | int | float] = {}
        if self.index.startswith("HNSW"):
            defaults = {"M": 16, "efConstruction": 200}
        elif self.index.startswith("IVF") or self.index == "SCANN":
            defaults = {"nlist": 1024}
        if self.index == "IVF_PQ":  # a byte for every eight numbers, if eight divides `dim`
            together = next(size for size in (8, 4, 2, 1) if dim % size == 0)
            defaults |= {"m": dim // together, "nbits": 8}
        return {**defaults, **self.build}

    def search_params(self, k: int) -> Params:
        """Parameters of a search for k photos, with defaults."""
        params = dict(self.search)
        if self.index.startswith("HNSW"):
            params.setdefault("ef", 128)
        elif self.index.startswith("IVF") or self.index == "SCANN":
            params.setdefault("nprobe", 64)
        if "ef" in params:
            params["ef"] = max(int(params["ef"]), k)
        return params

    def remembered(self) -> dict[str, Any]:
        """The options that are stored with the collection."""
        return {name: value for name, value in asdict(self).items() if name not in _PATIENCE}

    def reading(self, given: Mapping[str, Any]) -> "Options":
        """These stored options, with the given ones for reading."""
        asked = read_options(given)
        changed = {name: getattr(asked, name) for name in _READING if name in given}
        return replace(self, **changed, search={**self.search, **asked.search})


def parse_address(address: str) -> Place:
    """Read an address; a SolarError if it names no server and collection, or no file."""
    parts = urlsplit(address, allow_fragments=False)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    database = options.pop("database", "")
    if parts.netloc in ("", "."):
        file = parts.netloc + unquote(parts.path)
        if not file.endswith(".db"):
            raise SolarError(
                f"{address} names neither a server nor a Milvus Lite file: write "
                "milvus://host:19530/collection or milvus:///folder/photos.db."
            )
        return Place(file, _name(options.pop("collection", "photos")), "", "", options, file)
    try:
        host, port = parts.hostname or "", parts.port or _DEFAULT_PORT
    except ValueError:
        raise SolarError(f"The port of {parts.netloc} is not a number below 65536.") from None
    scheme = "https" if _flag("tls", options.pop("tls", "no")) else "http"
    user = ":".join(unquote(part) for part in (parts.username, parts.password) if part)
    return Place(
        f"{scheme}://{host}:{port}",
        _name(unquote(parts.path.strip("/"))),
        database,
        user or os.environ.get(TOKEN, ""),
        options,
    )


def read_options(given: Mapping[str, Any]) -> Options:
    """Read options from an address or from keyword arguments."""
    kinds = {each.name: type(each.default) for each in fields(Options) if each.default != MISSING}
    names = [*kinds, *_BUILD, *_SEARCH]
    for name in given:
        if name not in names:
            raise SolarError(f"Milvus has no option {name!r}: choose from {', '.join(names)}.")
    known = {name: _typed(name, given[name], kind) for name, kind in kinds.items() if name in given}
    build, search = (
        {name: _plain(value) for name, value in given.items() if name in group}
        for group in (_BUILD, _SEARCH)
    )
    options = Options(**known, build=build, search=search)
    consistency = options.consistency.capitalize()
    if consistency not in CONSISTENCIES:
        choices = ", ".join(CONSISTENCIES)
        raise SolarError(f"There is no consistency level {consistency!r}: choose from {choices}.")
    if options.partition not in ("none", "hash") and not options.partition.startswith(BY_TAG):
        raise SolarError(
            f"The option partition must be none, hash or tag:…, not {options.partition}."
        )
    for name in ("partitions", "shards", "replicas", "timeout", "wait"):
        if getattr(options, name) <= 0:
            raise SolarError(f"The option {name} must be above 0, not {getattr(options, name)}.")
    return replace(options, consistency=consistency, index=options.index.upper())


def _typed(name: str, value: Any, kind: type) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError):
        raise SolarError(f"The option {name} must be a number, not {value!r}.") from None


def _plain(value: Any) -> str | int | float:
    """A parameter of an index: a number if it looks like one."""
    for kind in (int, float):
        try:
            return kind(value)
        except (TypeError, ValueError):
            continue
    return str(value)


def _flag(name: str, value: str) -> bool:
    if value.lower() in ("yes", "true", "1"):
        return True
    if value.lower() in ("no", "false", "0"):
        return False
    raise SolarError(f"The option {name} must be yes or no, not {value!r}.")


def _name(collection: str) -> str:
    if not _NAME.fullmatch(collection):
        raise SolarError(
            f"{collection!r} cannot be the name of a collection: use letters, digits and "
            "underscores, as in milvus://host:19530/photos."
        )
    return collection
