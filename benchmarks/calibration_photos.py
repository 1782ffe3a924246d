r"""Lay out the photos that benchmarks/calibrate.py learns from: SET/PLACE/PHOTO.jpg.

    python benchmarks/calibration_photos.py -o collections --data DIR --vpr VPR_datasets \
        --groceries GroceryStoreDataset/dataset/train --wonders vandana-cpu/Train/Wonders_of_World

DIR holds the shards of landmarks and buildings. The others are repositories on GitHub:
Harbourr/VisualPlaceRecognitionDatasets (of SPEDTEST 110 places, of ESSEX3IN1 50, each on two days),
marcusklasson/GroceryStoreDataset (8 photos of each package, 4 of each fruit) and
vandana-cpu/vandana-cpu (12 photos of each wonder that landmarks/val lacks). Photos that are larger
are reduced to 384 pixels.
"""

import argparse
from collections.abc import Iterator, Sequence
from io import BytesIO
from itertools import chain
from pathlib import Path

from box_photos import HELD_OUT, smaller
from lib.places import SIZE

from solar.datasets.labelled.photo_labels import labelled_photos
from solar.images import Photos, find_photos

QUALITY = 92  # of the JPEG files
SPEDTEST = "Chen_RAL_2018_Attention_dataset/SPEDTEST"
Photo = tuple[str, bytes]


def from_shards(data: Path) -> Iterator[Photo]:
    """Photos of landmarks and buildings, and those that show neither."""
    for name, folder, shards in (
        ("train", "landmarks", "train-*.tar"),
        ("val", "landmarks", "val-*.tar"),
        ("buildings", "buildings", "val-*.tar"),
    ):
        photos, labels = labelled_photos(sorted((data / folder).glob(shards)))
        for row, label in enumerate(labels):
            yield f"{name}/{label}/{row:04}", in_shard(photos, row)
    photos = find_photos(sorted((data / "landmarks").glob("distractors-*.tar")))
    for row in range(len(photos)):
        yield f"distractors/all/{row:04}", in_shard(photos, row)


def in_shard(photos: Photos, row: int) -> bytes:
    """The file of a photo of a tar shard."""
    content = photos.read(row)
    assert isinstance(content, bytes)
    return content


def days(name: str, folders: Sequence[Path], every: int, most: int) -> Iterator[Photo]:
    """A photo of each place from each folder, one of so many places."""
    numbers = sorted(int(path.stem) for path in folders[0].iterdir() if path.stem.isdigit())
    for number in numbers[::every][:most]:
        for day, folder in enumerate(folders):
            path = folder / f"{number}.jpg"
            if path.exists():
                yield f"{name}/{number}/{day}", path.read_bytes()


def kinds(name: str, folder: Path, each: int) -> Iterator[Photo]:
    """Photos of every folder that holds any."""
    for place in sorted({path.parent for path in folder.rglob("*.jpg")}):
        if place.name not in HELD_OUT:
            for number, path in enumerate(sorted(place.glob("*.jpg"))[:each]):
                yield f"{name}/{place.name}/{number}", path.read_bytes()


def main() -> None:
    """Write them all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    for name in ("data", "vpr", "groceries", "wonders"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    options = parser.parse_args()
    sped, essex = options.vpr / SPEDTEST, options.vpr / "ESSEX3IN1_dataset"
    sets = (
        from_shards(options.data),
        days("sped", [sped / "refer_single_middle", sped / "query_renamed"], 5, 110),
        days("essex", [essex / "reference_combined", essex / "query_combined"], 4, 50),
        kinds("packages", options.groceries / "Packages", 8),
        kinds("fruit", options.groceries / "Fruit", 4),
        kinds("wonders", options.wonders, 12),
    )
    for name, content in chain(*sets):
        path = options.output / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        reduced = smaller(BytesIO(content), SIZE, QUALITY, 1)
        if reduced is None:
            raise SystemExit(f"calibration_photos.py: {name} cannot be read.")
        path.write_bytes(reduced)


if __name__ == "__main__":
    main()
