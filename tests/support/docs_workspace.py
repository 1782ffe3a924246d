"""The folder in which the code of README and documentation is run: what readers are told to have.

photos/, photos-by-landmark/    six generated landmarks, two views each: landmark-000/view-000.jpg
new-photos/, more/, others/, other-photos/    two more landmarks each
shards/*.tar                    photos in shards
a.jpg, b.jpg, query.jpg         three views of one landmark, 336 × 252
sequences/                      two scenes seen from six places, with homographies
ref.png, h1.png                 strips of patches
data/roxford5k/, data/rparis6k/ small sets in the published form
gnd_roxford5k.pkl               a ground truth; db.npy and queries.npy, a.npy and aq.npy, b.npy and
                                bq.npy are descriptors that go with it, r1m.npy distractors
photos.npy                      descriptors
own.json                        a ground truth of one's own, of photos below photos/
labels.csv                      the same photos as name,label
teacher.pt2                     a program to imitate
published.pth                   a published checkpoint; cache/ holds one for every name in DRAWN
box/                            the models in the box with drawn weights, where they lack theirs
dinov2-small/, siglip2-base/    models as the model hub has them, tiny and with drawn weights
recipes/, benchmarks/           as in the repository
"""

import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from support import ground_truth, teachers, tiny_joint, tiny_transformers
from support.drawn import drawn_checkpoint, drawn_state
from support.patch_sets import strips, write_sequence

from solar import weights
from solar.demo import toy
from solar.models import PatchConfig, PatchNet, RetrievalConfig, RetrievalNet, save, zoo

SIZE = (160, 120)
# The first is that of query.jpg; the views of the others agree in enough points for `solar data
# build --verify`, so small.
LANDMARKS = (19, 7, 33, 38, 39, 41)
REPOSITORY = Path(__file__).parents[2]
# Published names whose weights are drawn: small networks instead of downloads.
DRAWN = ("solar-r101", "gem-r101-gl18", "gem-r50-gl18")
DRAWN_LOCAL = ("solar-local-345-liberty",)
BOX = "box"


def fill(folder: Path) -> None:
    """Write everything above into an empty folder."""
    _photos(folder)
    _patches(folder)
    _ground_truths(folder)
    _weights(folder)
    for name in ("recipes", "benchmarks"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=shutil.ignore_patterns("results"))


def _photos(folder: Path) -> None:
    photos = folder / "photos"
    for number, landmark in enumerate(LANDMARKS):  # never into a name that is there
        toy.write(photos, landmarks=1, views=2, size=SIZE, first=landmark)
        (photos / f"landmark-{landmark:03}").rename(photos / f"landmark-{number:03}")
    shutil.copytree(photos, folder / "photos-by-landmark")
    for number, name in enumerate(("new-photos", "more", "others", "other-photos")):
        toy.write(folder / name, landmarks=2, views=2, size=SIZE, first=20 + 2 * number)
    for view, name in enumerate(("a.jpg", "b.jpg", "query.jpg")):
        toy.landmark(19, view, size=(336, 252)).save(folder / name)
    (folder / "shards").mkdir()
    for name in ("more", "others"):
        with tarfile.open(folder / "shards" / f"{name}.tar", "w") as shard:
            shard.add(folder / name, name)


def _patches(folder: Path) -> None:
    for number in range(2):
        write_sequence(folder / "sequences" / f"v_{number}", seed=number, side=144)
    drawn = strips(sequences=1, points=16)
    for kind in ("ref", "h1"):
        Image.fromarray(drawn.strip("v_0", kind).reshape(-1, 65)).save(folder / f"{kind}.png")


def _ground_truths(folder: Path) -> None:
    database, queries = ground_truth.descriptors()
    for rows, names in ((database, ("db", "a", "b", "photos")), (queries, ("queries", "aq", "bq"))):
        for name in names:
            np.save(folder / f"{name}.npy", rows)
    np.save(folder / "r1m.npy", ground_truth.unit(np.random.default_rng(0).normal(size=(99, 16))))
    content = ground_truth.write(folder / "gnd_roxford5k.pkl").read_bytes()
    told = ground_truth.content()
    for name in ("roxford5k", "rparis6k"):
        home = folder / "data" / name
        (home / "jpg").mkdir(parents=True)
        (home / f"gnd_{name}.pkl").write_bytes(content)
        for number, photo in enumerate(told["imlist"] + told["qimlist"]):
            toy.landmark(number % 7, 0, size=(40, 40)).save(home / "jpg" / f"{photo}.jpg")
    photos = sorted(path.relative_to(folder / "photos") for path in folder.glob("photos/*/*.jpg"))
    names = [photo.as_posix() for photo in photos]
    query = {"photo": names[0], "box": [21, 17, 127, 100], "easy": [names[1]], "hard": [2]}
    (folder / "own.json").write_text(json.dumps({"database": names[1:], "queries": [query]}))
    rows = [f"{name},{name.partition('/')[0]}" for name in names]
    (folder / "labels.csv").write_text("\n".join(["name,label", *rows, ""]))


def _weights(folder: Path) -> None:
    (folder / "cache").mkdir()
    net = RetrievalNet(RetrievalConfig("resnet18", attention={4: 4, 5: 2}))
    torch.save(drawn_checkpoint(net), folder / "published.pth")
    _box(folder / BOX, net)
    for name in DRAWN:
        (folder / "cache" / zoo.find(name).file).hardlink_to(folder / "published.pth")
    local = PatchNet(PatchConfig({3: 4, 4: 4, 5: 2}))
    for name in DRAWN_LOCAL:
        torch.save(drawn_state(local, "local"), folder / "cache" / zoo.find(name).file)
    teachers.exported(folder / "teacher.pt2")
    tiny_transformers.write(tiny_transformers.model("dinov2"), folder / "dinov2-small")
    tiny_joint.write_joint("siglip", folder / "siglip2-base")


def _box(folder: Path, net: RetrievalNet) -> None:
    """Copy what is in the box, with drawn weights where there are none."""
    shutil.copytree(weights.FOLDER, folder, ignore=shutil.ignore_patterns("__*"))
    for name in weights.NAMES:
        path = folder / f"{name}.safetensors"
        if not path.exists():
            save(PatchNet(PatchConfig({3: 4})) if "local" in name else net, path, half=True)
