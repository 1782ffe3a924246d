"""What is kept on the disk: the models, and the folder for downloads."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from solar.doctor.privacy import shareable
from solar.models import zoo

ModelState = Literal[
    "bundled", "lacking", "downloaded", "can be downloaded", "with a browser", "to be trained"
]


@dataclass(frozen=True)
class StoredModel:
    """A model with a name, and where its file is; "lacking" should be bundled, and is not."""

    name: str
    task: str
    state: ModelState


@dataclass(frozen=True)
class CacheFolder:
    """The folder for downloads, which is made when it is first needed."""

    path: str  # as it may be shown
    files: int
    size: int  # bytes of them all
    free: int  # bytes that are left on its disk
    problem: str = ""  # why nothing can be written there


def models() -> list[StoredModel]:
    """Every model of the zoo, in its order."""
    return [StoredModel(entry.name, entry.task, _state(entry)) for entry in zoo.models()]


def _state(entry: zoo.NamedModel) -> ModelState:
    if zoo.is_here(entry):
        return "bundled" if entry.bundled else "downloaded"
    if entry.recipe:
        return "to be trained"
    if entry.by_hand:
        return "with a browser"
    return "lacking" if entry.bundled else "can be downloaded"


def cache_folder() -> CacheFolder:
    """Look at the folder for downloads without making it."""
    path = zoo.cache_directory()
    sizes = []
    for file in path.rglob("*"):
        try:
            if file.is_file():
                sizes.append(file.stat().st_size)
        except OSError:  # gone since, or not ours to look at
            continue
    nearest = next((one for one in (path, *path.parents) if one.is_dir()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=nearest):
            problem = ""
    except OSError as error:
        problem = error.strerror or str(error)
    free = shutil.disk_usage(nearest).free
    return CacheFolder(shareable(str(path)), len(sizes), sum(sizes), free, problem)
