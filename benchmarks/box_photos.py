r"""Make the tar shards that the bundled networks learn from, out of public collections.

    python benchmarks/box_photos.py -o photos --coco cnn-edge-detection/train2017 \
        --places Bangkit-Capstone-Dataset/dataset vandana-cpu/Train/Wonders_of_World \
        --sequences VisualPlaceRecognitionDatasets/VPR_datasets

Each option may be left out; what is given becomes shards of at most 56 MiB. The collections are
repositories on GitHub: mrsambaga/Bangkit-Capstone-Dataset, mvrsa/Machine-Learning-for-Landmark-
Recognition (folder Dataset; both show Indonesian landmarks, partly the same), vandana-cpu/
vandana-cpu (wonders of the world), Harbourr/VisualPlaceRecognitionDatasets, and hai4h/
cnn-edge-detection (COCO train2017 at 256 × 256).

A member is called train/LANDMARK/NAME.jpg, as those of landmarks/train-*.tar are, or
seq/STRETCH/NAME.jpg: neighbouring frames of a sequence are a landmark of their own. Landmarks of
landmarks/val are left out, as are the sequences that place recognition is evaluated on (SPEDTEST,
Gardens Point, ESSEX3IN1), and photos with a side below 150 pixels.
"""

import argparse
import io
import re
import tarfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import BinaryIO

from PIL import Image, ImageOps, UnidentifiedImageError

SHARD = 56 << 20
LONGEST, SMALLEST = 368, 150  # pixels
COCO = 160  # pixels a side, unless asked otherwise: what imitation sees is little larger

# In landmarks/val.
HELD_OUT = {"eiffel_tower", "machu_pichu", "stonehenge", "taj_mahal"}
# One landmark under two names.
SAME = {
    "great_wall_of_china": "Great_Wall_of_China",
    "Candi-Borobudur": "borobudur",
    "Gedung-Sate": "gedungsate",
    "Patung-GWK": "gwk",
    "Suro-Boyo": "suroboyo",
    "Tugu-Jogja": "tugujogja",
    "Tugu-Monas": "monas",
}
# Traverses of a sequence, frames of one number at one place. Where the numbers of two do not agree,
# one is left out: its places would count as others.
SEQUENCES = {
    "nordland": (
        "Chen_RAL_2018_Attention_dataset/nordland_noviewpointvariation/summer_renamed",
        "Chen_RAL_2018_Attention_dataset/nordland_noviewpointvariation/winter_renamed",
    ),
    "stlucia": ("Chen_RAL_2018_Attention_dataset/stlucia/0845_ref",),
    "alderley": (
        "MerrillRSS2018_datasets/alderley/live",
        "MerrillRSS2018_datasets/alderley/memory",
    ),
    "campus": (
        "MerrillRSS2018_datasets/campus_loop/live",
        "MerrillRSS2018_datasets/campus_loop/memory",
    ),
    "corridor": ("corridor_dataset_IJRR2013Milford/corridor_left",),
    "kudamm": ("Berlin_datasets/ber_kud/berlin_kudamm_1_ref_renamed",),
    "halensee": ("Berlin_datasets/ber_hass/berlin_halenseestrasse_2_ref",),
    "a100": ("Berlin_datasets/ber_a100/berlin_A100_2_ref_renamed",),
}
STRETCH, SHOWN = 8, 4  # frames of a stretch, and those of them that are taken: the rest is distance

Member = tuple[str, Path]


def landmarks(folders: Iterable[Path]) -> Iterator[Member]:
    """Photos of folders of landmarks, numbered through by landmark."""
    numbers: dict[str, Iterator[int]] = {}
    for folder in folders:
        for landmark in sorted(folder.iterdir()):
            if landmark.is_dir() and landmark.name not in HELD_OUT:
                name = SAME.get(landmark.name, landmark.name)
                number = numbers.setdefault(name, count())
                for photo in _photos(landmark):
                    # Not the number alone: landmarks/train-*.tar has numbers, too.
                    yield f"train/{name}/more-{next(number):04}.jpg", photo


def stretches(folder: Path) -> Iterator[Member]:
    """The first frames of every stretch of every sequence."""
    for name, traverses in SEQUENCES.items():
        for turn, traverse in enumerate(traverses):
            for photo in _photos(folder / traverse):
                if not (digits := re.search(r"\d+$", photo.stem)):
                    continue  # a second copy of a frame, in another size
                number = int(digits[0])
                stretch, place = divmod(number, STRETCH)
                if place < SHOWN:
                    yield f"seq/{name}-{stretch:04}/{turn}-{number:05}.jpg", photo


def _photos(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in (".jpg", ".jpeg", ".png"))


def smaller(photo: Path | BinaryIO, longest: int, quality: int, smallest: int) -> bytes | None:
    """A photo as a JPEG of at most so many pixels; None if it is too small or cannot be read."""
    try:
        with Image.open(photo) as file:
            image = ImageOps.exif_transpose(file).convert("RGB")
    except (OSError, ValueError, UnidentifiedImageError, Image.DecompressionBombError):
        return None
    if min(image.size) < smallest:
        return None
    image.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    image.save(written, "JPEG", quality=quality)
    return written.getvalue()


def write(start: Path, members: Iterable[Member], *, longest: int, quality: int) -> None:
    """Write photos into `start`-00.tar, -01.tar and so on."""
    names, paths = zip(*members, strict=True)
    reduce = partial(smaller, longest=longest, quality=quality, smallest=min(SMALLEST, longest))
    kept = 0
    with ProcessPoolExecutor() as pool:
        found = zip(names, pool.map(reduce, paths, chunksize=64), strict=True)
        readable = ((name, content) for name, content in found if content is not None)
        for number, part in enumerate(_shards(readable)):
            with tarfile.open(f"{start}-{number:02}.tar", "w") as shard:
                for name, content in part:
                    member = tarfile.TarInfo(name)
                    member.size = len(content)
                    shard.addfile(member, io.BytesIO(content))
            kept += len(part)
    print(f"{start.name}: {kept} photos of {len(names)}", flush=True)


def _shards(photos: Iterable[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    """Photos in parts that are no larger than a shard."""
    part: list[tuple[str, bytes]] = []
    size = 0
    for name, content in photos:
        taken = len(content) + 1024  # with its head, and filled up to whole blocks
        if part and size + taken > SHARD:
            yield part
            part, size = [], 0
        part.append((name, content))
        size += taken
    if part:
        yield part


def main() -> None:
    """Write the shards of what is given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--places", type=Path, nargs="+", help="folders of landmarks")
    parser.add_argument("--sequences", type=Path)
    parser.add_argument("--coco", type=Path)
    parser.add_argument("--coco-size", type=int, default=COCO, help="pixels a side")
    parser.add_argument("--coco-every", type=int, default=1, help="12: every twelfth photo")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    if options.places:
        write(options.output / "places", landmarks(options.places), longest=LONGEST, quality=85)
    if options.sequences:
        frames = stretches(options.sequences)
        write(options.output / "sequences", frames, longest=LONGEST, quality=85)
    if options.coco:
        every = _photos(options.coco)[options.coco_every - 1 :: options.coco_every]
        coco = ((f"coco/{path.name}", path) for path in every)
        write(options.output / "coco", coco, longest=options.coco_size, quality=60)


if __name__ == "__main__":
    main()
