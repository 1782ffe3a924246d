"""Where an index is: engines by how an address begins, kinds of index by what a folder says.

`photos.solar` is a folder beside you, `milvus://host:19530/photos` a collection on a server. A new
engine is its module and a line here.
"""

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

Address: TypeAlias = str | os.PathLike[str]

ENGINES = {"milvus": "solar.search.milvus_engine"}
"""Modules with `create` and `open_index`, by the scheme of their addresses."""

FORMATS = {"asmk": "solar.search.asmk_index"}
"""Modules whose `open_index` opens a folder that holds something else than vectors."""

ON_GPU = "solar.search.resident"
"""The module whose `open_index` opens a folder of vectors to be searched on a GPU."""


def is_folder(address: Address) -> bool:
    """Whether an index is a folder on this machine, and no address of an engine."""
    scheme, separator, _ = str(address).partition("://")
    return not separator or scheme not in ENGINES


def engine_module(address: Address) -> ModuleType:
    """The module whose `create` and `open_index` understand an address."""
    scheme = str(address).partition("://")[0]
    return import_module("solar.search.folder_engine" if is_folder(address) else ENGINES[scheme])


def report_place(address: Address, kind: str) -> Path:
    """Where a report of `photos.solar` is looked for: `photos.groups.json` beside it.

    Any other name stays whole: `trip.2023` and `trip.2024` do not share a report.
    """
    place = Path(address).absolute()
    name = place.stem if place.suffix == ".solar" else place.name
    return place.with_name(f"{name}.{kind}.json")
