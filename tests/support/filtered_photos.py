"""Photos of which the index knows something: tags, times and places, below two roots."""

import json
from pathlib import Path
from typing import Any

import torch

from solar.demo import toy
from solar.index.add import add
from solar.index.build import build
from solar.models import RetrievalConfig, RetrievalNet, save
from solar.storage.types import Photo

LANDMARKS, VIEWS, PHONE = 3, 3, 2
PHOTOS = LANDMARKS * VIEWS + PHONE
NIGHT = "landmark-001/view-000.jpg"
"""The only photo with the tag `night`, with a place, and with own fields."""


def varied(row: int, **more: Any) -> Photo:
    """One of many photos without files, of which conditions choose some."""
    return Photo(
        f"{'rome' if row % 3 else 'a*[b'}/{row}.jpg",
        width=row,
        height=2 * row,
        tags=("night",) * (row % 2) + ("river",) * (row % 5 == 0),
        taken=None if row % 7 == 0 else f"20{row % 20:02}-07-14T18:30:00",
        **more,
    )


def taken(landmark: int, view: int) -> str:
    """When a view was taken: landmarks in different years, views on different days."""
    return f"{2018 + landmark}-07-{10 + view}T18:30:00"


def write_filtered(home: Path) -> Path:
    """Write photos below `photos` and `phone`, and an index; gives the index."""
    toy.write(home / "photos", landmarks=LANDMARKS, views=VIEWS, size=(160, 120))
    toy.write(home / "new", landmarks=1, views=PHONE, first=LANDMARKS, size=(160, 120))
    (home / "new" / f"landmark-{LANDMARKS:03d}").rename(home / "phone")
    facts = [
        {"path": f"landmark-{one:03d}/view-{view:03d}.jpg", "taken": taken(one, view)}
        for one in range(LANDMARKS)
        for view in range(VIEWS)
    ]
    for fact in facts:
        if fact["path"] == NIGHT:
            fact |= {"tags": ["night", "long exposure"], "position": [48.8582, 2.2945]}
            fact |= {"color": "red", "floor": 3, "indoor": False}
    (home / "facts.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in facts))
    torch.manual_seed(0)
    config = RetrievalConfig("resnet18", attention={4: 4, 5: 2}, size=96, scales=(1.0,))
    save(RetrievalNet(config), home / "model.safetensors")
    model, known = home / "model.safetensors", home / "facts.jsonl"
    build(home / "photos", home / "i.solar", model=model, metadata=known).close()
    add([home / "phone"], home / "i.solar").index.close()
    return home / "i.solar"
