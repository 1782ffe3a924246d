"""The fields of a Milvus collection, its stored facts, and conditions as filter expressions."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from solar.arrays import Vectors
from solar.errors import SolarError
from solar.files import is_text
from solar.images import Roots, Stamp
from solar.storage.milvus.connection import Connection
from solar.storage.milvus.options import BY_TAG, Options
from solar.storage.own_fields import FieldValue
from solar.storage.types import DescriptorSpec, Photo

FORMAT = 2
FACTS = "solar"
"""The property of a collection that holds `CollectionFacts`."""

KNOWN = ["path", "width", "height", "tags", "taken", "place", "checksum", "stamp", "fields"]
"""The fields of a row except its vector."""

TYPES = {str: "t:", int: "n:", float: "n:", bool: "b:"}
"""What begins the stored names of own fields, as Milvus Lite takes `true` for 1."""

PLACES = 1 << 62
_PATH_BYTES, _TAG_BYTES, _TAGS, _TAKEN_BYTES, _STAMP_BYTES = 4096, 1024, 256, 32, 128


@dataclass(frozen=True)
class CollectionFacts:
    """What a collection stores besides its rows."""

    spec: DescriptorSpec
    options: Options
    roots: Roots

    def stored(self) -> str:
        """As JSON."""
        facts = {"format": FORMAT, "made": asdict(self.spec), "roots": self.roots.stored()}
        return json.dumps({**facts, "options": self.options.remembered()})


def read_facts(connection: Connection, name: str) -> CollectionFacts:
    """The facts of a collection; a SolarError if solar did not make it, or in another format."""
    place = connection.place
    described = connection.call("describe_collection", name)
    text = described.get("properties", {}).get(FACTS) or described.get("description", "")
    try:
        facts = json.loads(text)
        if facts["format"] != FORMAT:
            raise SolarError(
                f"{place} has format {facts['format']}, and this version of solar reads format "
                f"{FORMAT}: build the index again, or use the version that wrote it."
            )
        spec, options = DescriptorSpec(**facts["made"]), Options(**facts["options"])
        roots = Roots.read(facts["roots"])
    except SolarError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise SolarError(f"{place} was not made by solar: choose another collection.") from error
    fields = {field["name"]: field for field in described["fields"]}
    dim = fields["vector"]["params"]["dim"]
    if int(dim) != spec.dim:
        raise SolarError(f"{place} holds vectors of length {dim} instead of {spec.dim}.")
    return CollectionFacts(spec, options, roots)


def schema(connection: Connection, dim: int, partition: str, description: str) -> Any:
    """The fields of a new collection, partitioned as in `Options`: a `CollectionSchema`."""
    schema = connection.pymilvus.MilvusClient.create_schema(
        auto_id=False, enable_dynamic_field=False, description=description
    )
    kind = connection.pymilvus.DataType
    schema.add_field("path", kind.VARCHAR, max_length=_PATH_BYTES, is_primary=True)
    schema.add_field("width", kind.INT64)
    schema.add_field("height", kind.INT64)
    schema.add_field(
        "tags", kind.ARRAY, element_type=kind.VARCHAR, max_capacity=_TAGS, max_length=_TAG_BYTES
    )
    schema.add_field("taken", kind.VARCHAR, max_length=_TAKEN_BYTES)
    schema.add_field("place", kind.INT64, is_partition_key=partition == "hash")
    schema.add_field("checksum", kind.INT64)
    schema.add_field("stamp", kind.VARCHAR, max_length=_STAMP_BYTES)
    schema.add_field("fields", kind.JSON)
    if partition.startswith(BY_TAG):
        schema.add_field("partition", kind.VARCHAR, max_length=_TAG_BYTES, is_partition_key=True)
    schema.add_field("vector", kind.FLOAT_VECTOR, dim=dim)
    return schema


def rows_of(
    photos: Sequence[Photo], vectors: Vectors, partition_tag: str | None
) -> list[dict[str, Any]]:
    """Rows of photos and their vectors (n, dim); `partition_tag` begins the tag of a partition."""
    return [
        {
            "path": photo.path,
            "width": photo.width,
            "height": photo.height,
            "tags": list(photo.tags),
            "taken": photo.taken or "",
            "place": place_of(photo.path),
            "checksum": checksum(vector),
            "stamp": " ".join(map(str, photo.stamp or ())),
            "fields": {TYPES[type(own)] + name: own for name, own in photo.fields.items()},
            "vector": vector,
            **({} if partition_tag is None else {"partition": _tag_of(photo, partition_tag)}),
        }
        for photo, vector in zip(photos, vectors, strict=True)
    ]


def photo_of(row: dict[str, Any]) -> Photo:
    """The photo of a row."""
    tags, stamp = tuple(map(str, row["tags"])), None
    if row["stamp"]:
        size, modified, *digest = row["stamp"].split()
        stamp = Stamp(int(size), int(modified), "".join(digest))
    known = (row["path"], row["width"], row["height"], tags, row["taken"] or None, stamp)
    return Photo(*known, fields=fields_of(row))


def fields_of(row: dict[str, Any]) -> dict[str, FieldValue]:
    """The own fields of a row."""
    return {name[2:]: value for name, value in row["fields"].items()}


def vector_of(row: dict[str, Any]) -> Vectors:
    """The vector (dim,) of a row."""
    return np.asarray(row["vector"], np.float32)


def place_of(path: str) -> int:
    """A hash of the path below `PLACES`."""
    digest = hashlib.blake2b(path.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % PLACES


def checksum(vector: Vectors) -> int:
    """The CRC-32 of a vector's bytes."""
    return zlib.crc32(np.ascontiguousarray(vector, "<f4").data)


def check_photo(photo: Photo) -> None:
    """Refuse what Milvus would refuse, with a better message."""
    texts = (photo.path, photo.taken or "", *photo.tags)
    if not all(map(is_text, texts)):
        raise SolarError(f"The name {photo.path!r} is not valid UTF-8: rename the photo.")
    if len(photo.path.encode()) > _PATH_BYTES:
        raise SolarError(f"The path {photo.path[:40]}… is longer than {_PATH_BYTES} bytes.")
    if len(photo.tags) > _TAGS or any(len(tag.encode()) > _TAG_BYTES for tag in photo.tags):
        raise SolarError(
            f"{photo.path} has more than {_TAGS} tags, or one longer than {_TAG_BYTES} bytes."
        )


def _tag_of(photo: Photo, beginning: str) -> str:
    """The tag that selects the partition; empty if there is none."""
    found = [tag for tag in photo.tags if tag.startswith(beginning)]
    if len(found) > 1:
        raise SolarError(
            f"{photo.path} has {len(found)} tags that begin with {beginning!r}, by which the "
            "collection is partitioned: leave one."
        )
    return found[0] if found else ""
