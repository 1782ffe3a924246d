"""`solar search http://host:8000 …`: the same, of an index that somebody serves."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from solar.client import Client, ServerPhoto
    from solar.ranking.query import Part
    from solar.storage.types import Hit, Photo


# What takes the index itself, not its server.
_LOCAL = (
    *("like", "unlike", "local_features", "backend", "model"),
    *("device", "html", "photos", "roots"),
)


def is_server(address: str) -> bool:
    """Whether an address is that of a web app."""
    return address.startswith(("http://", "https://"))


def found_by_server(
    address: str, asked: "Sequence[Part]", k: int, given: Mapping[str, Any], **options: Any
) -> "tuple[list[Hit], Mapping[str, Photo | None]]":
    """What the server at an address finds, and what it knows of that, by name.

    `given` are all options of the command.
    """
    from solar.client import Client
    from solar.errors import SolarError
    from solar.ranking.verify import VerifySettings

    if unknown := [name for name in _LOCAL if given[name]]:
        raise SolarError(f"A search on a server does not take `{unknown[0]}=`: leave it out.")
    if given["verify_top"] != VerifySettings.top:
        raise SolarError("A search on a server does not take --verify-top: leave it out.")
    client = Client(address, os.environ.get("SOLAR_TOKEN") or None)
    # Queries of the command are texts or bytes.
    known_there = [_query_photo(client, cast("str | bytes", part.photo)) for part in asked]
    boxes = [None if part.box is None else list(part.box) for part in asked]
    further = [
        _without_none({"photo": photo["id"], "box": box})
        for photo, box in list(zip(known_there, boxes, strict=True))[1:]
    ]
    hits = client.search(
        known_there[0] if known_there else None,
        k,
        box=boxes[0] if boxes else None,
        further=further,
        **_without_none(options),
    )
    return hits, {hit.path: hit.photo for hit in hits}


def _query_photo(client: "Client", query: str | bytes) -> "ServerPhoto":
    """A query as the server knows it: files are uploaded, indexed photos found by their paths."""
    from solar.errors import SolarError
    from solar.index.photo_index import BY_NAME

    if isinstance(query, bytes):
        return client.upload(query)
    if not query.startswith(BY_NAME) and os.path.exists(query):  # noqa: PTH110 (any text may come)
        return client.upload(query)
    name = query.removeprefix(BY_NAME)
    for photo in client.photos(name=name)["photos"]:
        if photo["name"] == name:
            return photo
    raise SolarError(
        f"{name} is neither a file nor a photo in the index at {client.address}: check its path."
    )


def _without_none(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
