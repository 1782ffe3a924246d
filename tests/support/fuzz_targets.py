"""What the fuzzer feeds: every reader of files and texts that strangers may have written."""

import io
import json
import pickle
import shutil
import sqlite3
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from support.fuzzing import Target

from solar.errors import SolarError

PIXELS = 2**20  # of a photo: a header may claim any number
FORMATS = ("JPEG", "PNG", "WEBP", "TIFF", "GIF", "BMP", "PPM", "AVIF", "HEIF", "JPEG2000")


def _drawn(size: tuple[int, int] = (24, 16)) -> Image.Image:
    chance = np.random.default_rng(0)
    return Image.fromarray(chance.integers(0, 256, (*size[::-1], 3), np.uint8))


# Photos.


def _photos(_: Path) -> list[bytes]:
    files = []
    for kind in FORMATS:
        file = io.BytesIO()
        try:
            if kind == "HEIF":
                import pillow_heif

                pillow_heif.from_pillow(_drawn((64, 64))).save(file)
            else:
                exif = Image.Exif()
                exif[0x0112] = 6  # orientation
                _drawn().save(file, kind, exif=exif)
        except (ImportError, KeyError, OSError):  # built without this codec
            continue
        files.append(file.getvalue())
    for mode in ("L", "P", "CMYK", "I;16", "RGBA", "1"):
        file = io.BytesIO()
        _drawn().convert("L" if mode == "I;16" else mode).convert(mode).save(file, "TIFF")
        files.append(file.getvalue())
    return files


def _read_photo(data: bytes, _: Path) -> None:
    from solar.images import image_size, load

    image_size(data)
    load(data, 8, mode="fast", box=(1, 1, 9, 9), max_pixels=PIXELS)


# Texts.


def _texts(*texts: str) -> Callable[[Path], list[bytes]]:
    return lambda _: [text.encode() for text in texts]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _read_box(data: bytes, _: Path) -> None:
    from solar.images.boxes import parse_box, pixel_box

    pixel_box(parse_box(_text(data)), 100, 80)


def _read_scales(data: bytes, _: Path) -> None:
    from solar.cli.options import parse_scales

    parse_scales(_text(data))


def _wheres(home: Path) -> list[bytes]:
    _index(home)
    numbers = "width>=1024", "height<2000", "taken>=2019-07-14", "near=48.858,2.294,500m"
    return _texts("tag=night", "path=rome/*", *numbers)(home)


def _read_where(data: bytes, own: Path) -> None:
    from solar.index import Index

    with Index.open(own.parent / "home" / "made.solar") as index:
        index.search(np.eye(4, dtype=np.float32)[0], where=_text(data))


_BODIES = {
    "SearchRequest": {
        "photo": "17", "box": [1, 2, 30, 40], "k": 5, "offset": 10, "rerank": ["alpha", "verify"],
        "model": "m",
        "filter": {"search": "a", "label": "b", "min_score": 0.5},
    },
    "AttentionRequest": {"photo": "q-Zk3vYw8t", "x": 1.5, "y": 2, "layer": 5, "model": None},
    "PairRequest": {"a": "1", "b": "2", "box": [0, 0, 10, 10]},
}  # fmt: skip


def _read_body(data: bytes, _: Path) -> None:
    import pydantic

    from solar.web.api import schemas
    from solar.web.app import _explained

    refused = 0
    for name in _BODIES:
        try:
            getattr(schemas, name).model_validate_json(data)
        except pydantic.ValidationError as error:
            refused += 1
            _explained(error.errors())
    if refused == len(_BODIES):
        raise SolarError("no request is like that")


# Indexes.


def _index(home: Path) -> Path:
    from solar.images import Roots, Stamp
    from solar.index import Index
    from solar.storage.types import DescriptorSpec, Photo

    path = home / "made.solar"
    photos = [
        Photo(f"{name}.jpg", 24, 16, ("night",), "2019-07-14T18:30:00", Stamp(3, 5, "0" * 64))
        for name in "abc"
    ]
    spec = DescriptorSpec(4, "", "", {"size": 64, "scales": [1.0]})
    rows = np.eye(4, dtype=np.float32)[:3]
    Index.create(path, rows, photos, spec=spec, roots=Roots.at(home)).close()
    return path


def _segment(home: Path) -> list[bytes]:
    return [path.read_bytes() for path in (_index(home) / "segments").iterdir()]


def _read_segment(data: bytes, own: Path) -> None:
    path = shutil.copytree(own.parent / "home" / "made.solar", own / "made.solar")
    next((path / "segments").iterdir()).write_bytes(data)
    _use_index(path)


def _facts(home: Path) -> list[bytes]:
    with sqlite3.connect(_index(home) / "catalogue.sqlite") as catalogue:
        return [str(row[0]).encode() for row in catalogue.execute("SELECT value FROM facts")]


def _use_index(path: Path) -> None:
    from solar.index import Index

    with Index.open(path) as index:
        index.search(np.eye(4, dtype=np.float32)[0])
        index.info()
        index.check()
        repr((index.roots, index.skipped, index.engine.stamps()))


def _read_facts(data: bytes, own: Path) -> None:
    path = shutil.copytree(own.parent / "home" / "made.solar", own / "made.solar")
    catalogue = sqlite3.connect(path / "catalogue.sqlite")
    for name, value in catalogue.execute("SELECT name, value FROM facts").fetchall():
        if _same_kind(value, data):
            text = _plain(data)
            own_sum = zlib.crc32(repr((name, text)).encode("utf-8", "backslashreplace"))
            change = "UPDATE facts SET value = ?, sum = ? WHERE name = ?"
            catalogue.execute(change, (text, own_sum, name))
    catalogue.commit()
    catalogue.close()
    _use_index(path)


def _same_kind(value: object, data: bytes) -> bool:
    return str(value)[:1].encode() == data[:1] or data[:1] not in b"[{"


def _plain(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _catalogue(home: Path) -> list[bytes]:
    return [(_index(home) / "catalogue.sqlite").read_bytes()]


def _read_catalogue(data: bytes, own: Path) -> None:
    path = shutil.copytree(own.parent / "home" / "made.solar", own / "made.solar")
    (path / "catalogue.sqlite").write_bytes(data)
    _use_index(path)


# Lists, archives, tables.


def _read_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], None]:
    def one(data: bytes, own: Path) -> None:
        (own / name).write_bytes(data)
        read(own / name)

    return one


def _find(path: Path) -> None:
    from solar.images import find_photos

    photos = find_photos(path)
    for number in range(min(len(photos), 5)):
        photos.read(number)


def _tars(_: Path) -> list[bytes]:
    files = []
    for form in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w", format=form) as archive:
            for name in ("a/b.jpg", "long/" * 30 + "c.jpg", "ö.jpg"):
                member = tarfile.TarInfo(name)
                member.size = 5
                archive.addfile(member, io.BytesIO(b"photo"))
        files.append(file.getvalue()[:4096])
    return files


def _csv(path: Path) -> None:
    from solar.datasets.labelled.photo_labels import read_csv

    read_csv(path)


def _training(path: Path) -> None:
    from solar.datasets.labelled.sources import read_training_file

    (path.parent / "photos").mkdir()
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        (path.parent / "photos" / name).touch()
    read_training_file(path).training_set(path)


_TRAINING = {
    "format": "solar training set", "version": 1, "sources": ["photos"], "least": 2,
    "landmarks": [
        {"name": "x", "part": "train", "photos": ["a.jpg", "b.jpg"], "matches": [[0, 1, 9]]},
        {"name": "y", "part": "val", "photos": ["a.jpg"]},
    ],
}  # fmt: skip
_TRUTH = {
    "database": ["a", "b", "c"],
    "queries": [{"photo": "q", "easy": [0], "hard": ["b"], "junk": [2], "box": [1, 2, 3, 4]}],
}
_PICKLED: dict[str, Any] = {
    "imlist": ["a", "b", "c"], "qimlist": ["q"],
    "gnd": [{"easy": [0], "hard": [1], "junk": [2], "bbx": [1.0, 2.0, 3.0, 4.0]}],
}  # fmt: skip


def _truth(path: Path) -> None:
    from solar.datasets.public.revisited import read_ground_truth

    read_ground_truth(path)


def _metadata(path: Path) -> None:
    from solar.index.metadata import read_metadata

    read_metadata(path)


def _recipe(path: Path) -> None:
    from solar.training.recipe import read_recipe
    from solar.training.retrieval.recipe import RetrievalRecipe

    read_recipe(RetrievalRecipe, path)


def _recipes(_: Path) -> list[bytes]:
    folder = Path(__file__).parents[2] / "recipes"
    files = sorted(folder.glob("*.yaml"))
    return [path.read_bytes() for path in files if b"extends" not in path.read_bytes()][:4]


# Networks.


def _heads(_: Path) -> list[bytes]:
    data = _network().read_bytes()
    return [data[: 8 + struct.unpack("<Q", data[:8])[0]]]


def _network() -> Path:
    from solar import weights

    return Path(weights.__file__).parent / "solar-local-none.safetensors"


def _read_network(data: bytes, own: Path) -> None:
    from solar.models import load

    whole = _network().read_bytes()
    start = 8 + struct.unpack("<Q", whole[:8])[0]
    length = min(struct.unpack("<Q", data[:8].ljust(8, b"\0"))[0], 2**20)
    (own / "model.safetensors").write_bytes(data[: 8 + length] + whole[start:])
    load(own / "model.safetensors")


def _json(*contents: object) -> Callable[[Path], list[bytes]]:
    return lambda _: [json.dumps(content).encode() for content in contents]


def _target(
    seeds: Callable[[Path], list[bytes]], read: Callable[[bytes, Path], object], cases: int = 100
) -> Target:
    return Target(seeds, read, (SolarError,), cases)


TARGETS: dict[str, Target] = {
    "photo": _target(_photos, _read_photo, 200),
    "box": _target(_texts("41,30,280,201", "-1e3,0.5,+7,1_0"), _read_box),
    "scales": _target(_texts("1,1.41,0.71", "2"), _read_scales),
    "where": _target(_wheres, _read_where),
    "web": _target(_json(*_BODIES.values()), _read_body),
    "segment": _target(_segment, _read_segment),
    "facts": _target(_facts, _read_facts),
    "catalogue": _target(_catalogue, _read_catalogue),
    "list": _target(
        _texts("a.jpg\nb/c.jpg\n", "\ufeffa.jpg\r\n# no\r\n"), _read_file("a.txt", _find)
    ),
    "tar": _target(_tars, _read_file("a.tar", _find)),
    "csv": _target(
        _texts("a.jpg,x\nb.jpg,y\n", 'id,landmark_id\n0123,"a b"\n'), _read_file("a.csv", _csv)
    ),
    "training": _target(_json(_TRAINING), _read_file("a.json", _training)),
    "truth": _target(_json(_TRUTH), _read_file("a.json", _truth)),
    "pickle": _target(
        lambda _: [pickle.dumps(_PICKLED, protocol) for protocol in (0, 2, 5)],
        _read_file("a.pkl", _truth),
    ),
    "metadata": _target(
        _texts('{"path": "a.jpg", "tags": ["x"], "taken": "2019-07-14T18:30:00"}\n'),
        _read_file("a.jsonl", _metadata),
    ),
    "recipe": _target(_recipes, _read_file("a.yaml", _recipe), 30),
    "network": _target(_heads, _read_network, 40),
}
