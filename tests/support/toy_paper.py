"""The datasets of the paper in miniature, in their published layout.

    PYTHONPATH=tests python -m support.toy_paper TOY

Prints the commands that train and measure all of it.
"""

import shlex
import sys
from pathlib import Path
from typing import Any

from support import ground_truth
from support.patch_sets import strips, write_subset

from solar.datasets.patches.hpatches import write_hpatches
from solar.demo import toy
from solar.evaluation.paper.tables import SCENES, TABLE_2

SMALL = {
    "table2": (
        *("network.backbone=resnet18", "network.features=null", "network.whitening_from=null"),
        *("network.dim=16", "images.size=32", "validation.size=32", "epochs=1", "batch=4"),
        *("mining.queries=4", "mining.pool=8", "mining.negatives=2", "keep=1"),
    ),
    "ubc": (
        *("epochs=1", "batch=16", "steps=2", "keep=1"),
        "network.layers=[[8,1],[8,1],[16,2],[16,1],[32,2],[32,1]]",
    ),
}
"""Settings with which the recipes of a target run on a processor in seconds."""


def write(root: Path) -> Path:
    """Write Revisited Oxford and Paris, GL18, PhotoTour and HPatches."""
    photos = ground_truth.content()
    for name in ("roxford5k", "rparis6k"):
        (root / name / "jpg").mkdir(parents=True)
        ground_truth.write(root / name / f"gnd_{name}.pkl")
        for number, photo in enumerate(photos["imlist"] + photos["qimlist"]):
            picture = toy.landmark(number % 7, number, size=(40, 40))
            picture.save(root / name / "jpg" / f"{photo}.jpg")
    _gl18(root / "gl18")
    for seed, scene in enumerate(SCENES):
        write_subset(root / "phototour" / scene, points=40, pairs=60, seed=seed, noise=120)
        folder = root / "phototour" / scene
        (folder / "m50_60_60_0.txt").rename(folder / "m50_100000_100000_0.txt")
    write_hpatches(strips(2, 12), root / "hpatches")
    return root


def _gl18(folder: Path, landmarks: int = 8, views: int = 3) -> None:
    """Eight landmarks to train on, two to validate with."""
    (folder / "jpg").mkdir(parents=True)
    rows: dict[str, list[Any]] = {"train.csv": ["id,url,landmark_id"]}
    rows |= {f"boxes_split{half}.csv": ["id,box"] for half in (1, 2)}
    for landmark in range(landmarks + 2):
        for view in range(views):
            name = f"{landmark:02}{view:02}"
            picture = toy.landmark(20 + landmark, view, size=(48, 40))
            picture.save(folder / "jpg" / f"{name}.jpg")
            rows["train.csv"].append(f"{name},http://x/{name},{landmark}")
            if landmark >= landmarks:
                rows["boxes_split2.csv"].append(f"{name},0.1 0.1 0.9 0.9")
    for file, lines in rows.items():
        (folder / file).write_text("\n".join(lines) + "\n")


def commands(root: str) -> list[str]:
    """What trains and measures all of it; the baseline is solar-r18, which needs no download."""
    rows = ["ResNet101-GeM [SOTA]=solar-r18", *(m.recipe for m in TABLE_2.methods if m.recipe)]
    options = {"table2": [part for row in rows for part in ("--rows", row)]}
    return [
        shlex.join(["solar", "reproduce", target, "--root", root, *options.get(target, []), *small])
        for target, small in SMALL.items()
    ]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
    sys.stdout.write("\n".join(commands(sys.argv[1])) + "\n")
