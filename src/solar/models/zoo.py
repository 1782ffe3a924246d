"""The named models: facts, files and published results.

Bundled ones lie in ``solar/weights`` and work offline; ``solar-lite0`` is the default. The others
are downloaded on first use. Their names follow one pattern, and the published file name (with or
without ``.pth``, and for cirtorch also without the hash) is accepted as well:

* ``solar-r101``, ``solar-local-345-liberty``: the networks of the paper's authors;
* ``solar-r101-gldv2``: SOLAR as the authors of Token retrained it, downloaded with a browser;
* ``gem-<backbone>-<training set>``: GeM networks with whitening trained end to end;
  ``-lw`` at the end: older networks, whose whitening was learnt afterwards and is stored beside
  the weights;
* ``how-r18``, ``how-r50``: networks for local features, by the authors of HOW (``how-r18-small`` is
  bundled); ``delf-r50`` is one that has to be trained first;
* ``imagenet-caffe-<backbone>``: backbones that the GeM networks started from;
* ``whiten-<backbone>-<pooling>-<training set>``: whitening of whole descriptors, ``rwhiten-…`` of
  regions (pooling ``…-r`` sums regions), ``lwhiten-…`` of every place of the map.

Backbones are r50, r101, r152 (ResNets), vgg16 and alexnet; training sets are sfm120k
(retrieval-SfM-120k) and gl18 (Google Landmarks 2018).
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from solar import weights
from solar.errors import SolarError
from solar.files import cache_directory

# For photos; for 32×32 patches; for local features of photos; a backbone alone; one linear layer.
Task = Literal["retrieval", "patches", "local", "backbone", "whitening"]

LICENCE = "MIT (the publisher's repository; the file carries none of its own)"
SFM = "retrieval-SfM-120k"


@dataclass(frozen=True)
class NamedModel:
    """A named model file, bundled or published elsewhere."""

    name: str
    task: Task
    file: str
    urls: tuple[str, ...]  # the preferred one first; none if bundled, or for `by_hand` and `recipe`
    sha256: str | None  # hex digest or its first digits; None when the publisher gives none
    architecture: str  # the backbone, by its usual name
    dim: int  # numbers in a descriptor; for a backbone, channels of the last map
    parameters: int  # learnt numbers, without running statistics
    trained_on: str
    attention: str = ""  # layers with second-order attention, "45" for example
    pooling: str = ""  # as in `POOLINGS`; with "-r" summed over regions
    # "end-to-end": a layer of the network; "learnt": a matrix beside the weights, applied last
    whitening: Literal["end-to-end", "learnt", ""] = ""
    # Published results in percent, by data set and protocol, and how they were measured.
    reported: Mapping[str, Mapping[str, float]] = field(default_factory=dict, hash=False)
    source: str = ""
    licence: str = "see publisher"
    aliases: tuple[str, ...] = ()  # further names, beside the file name
    bundled: bool = False
    by_hand: str = ""  # where to download it with a browser, if there is no other way
    recipe: str = ""  # trains it, where no file is published
    caveat: str = ""  # a sentence to show beside the results


RetrievalName = Literal[
    "solar-lite0",
    "solar-r18",
    "how-r18-small",
    "solar-r101",
    "solar-r101-gldv2",
    "gem-r50-gl18",
    "gem-r101-gl18",
    "gem-r152-gl18",
    "gem-r50-sfm120k",
    "gem-r101-sfm120k",
    "gem-r152-sfm120k",
    "gem-r101-sfm120k-lw",
    "gem-vgg16-sfm120k-lw",
    "imagenet-caffe-vgg16",
    "imagenet-caffe-r50",
    "imagenet-caffe-r101",
    "imagenet-caffe-r152",
    "how-r18",
    "how-r50",
    "delf-r50",
]
"""Names that load as a network for photos, for type checkers; backbones are pooled by GeM."""

PatchName = Literal[
    "solar-local-345", "solar-local-small", "solar-local-none", "solar-local-345-liberty"
]
"""Names that load as a network for patches, for type checkers."""


@cache
def models() -> tuple[NamedModel, ...]:
    """Every model with a name: bundled ones, then published ones, recommended ones first.

    An installation that lacks the facts of a bundled model does not list it.
    """
    here = [name for name in weights.NAMES if (weights.FOLDER / f"{name}.json").is_file()]
    return (*map(_bundled, here), *_MODELS)


def find(name: str) -> NamedModel:
    """The entry with this name, alias or published file name, in upper or lower case.

    A SolarError, with similar names, if there is none.
    """
    names = _names()
    if (entry := names.get(name.casefold())) is not None:
        return entry
    if name.casefold() in weights.NAMES:
        raise weights.lacking(name.casefold())
    close = difflib.get_close_matches(name.casefold(), names, n=5, cutoff=0.5)
    similar = list(dict.fromkeys(names[match].name for match in close))[:3]
    perhaps = f" (perhaps {' or '.join(similar)}?)" if similar else ""
    raise SolarError(f'There is no model called "{name}"{perhaps}; "solar models" lists them all.')


def is_name(name: str) -> bool:
    """Whether `find` knows this name."""
    return name.casefold() in _names()


def path_of(entry: NamedModel) -> Path:
    """The file, which may have to be downloaded yet."""
    return (weights.FOLDER if entry.bundled else cache_directory()) / entry.file


def is_here(entry: NamedModel) -> bool:
    """Whether the file is bundled, or has been downloaded (or put there by hand)."""
    return path_of(entry).is_file()


def obtain(name: str, *, progress: bool = True) -> Path:
    """The checked file of a model that `find` knows, downloaded if need be.

    Checking takes 20 ms for a bundled model and 0.2 s for a large one. A SolarError if the hash is
    wrong, or the file can only be downloaded by hand.
    """
    from solar.download import checked, fetch  # brings in http, which listing does not need

    entry = find(name)
    if entry.bundled:
        if not is_here(entry):
            raise weights.lacking(entry.name)
        return checked(path_of(entry), entry.sha256, bundled=True)
    if entry.recipe and not is_here(entry):
        raise SolarError(
            f"{entry.name} is not published in a format that solar reads: train it with "
            f"{entry.recipe} and put its best.safetensors at {path_of(entry)}."
        )
    if entry.by_hand and not is_here(entry) and not os.environ.get("SOLAR_MIRRORS"):
        raise SolarError(
            f"{entry.name} can only be downloaded with a browser: take {entry.by_hand} "
            f"and put it at {path_of(entry)}."
        )
    return fetch(entry.urls, path_of(entry), entry.sha256, progress=progress)


def no_text_side(source: str | None, *, joint: bool) -> SolarError:
    """The error for a text query; `joint`: this is the image side of a model with a text side."""
    name = source or "This network"
    if joint:
        return SolarError(
            f"{name} contains only the image encoder, like all files that solar writes: for text "
            "search, use the model that it was made from."
        )
    return SolarError(
        f"{name} has no text encoder: for text search, build an index with a model that has one, "
        "such as hf:google/siglip2-base-patch16-224."
    )


def _bundled(name: str) -> NamedModel:
    known = weights.facts(name)
    kept = ("task", "architecture", "dim", "parameters", "trained_on", "attention", "licence")
    return NamedModel(
        name=name,
        file=f"{name}.safetensors",
        urls=(),
        sha256=known["file"]["sha256"],
        pooling=known.get("pooling", ""),
        whitening=known.get("whitening", ""),
        reported=known["figures"],
        source=f"measured by {known['command']}",
        bundled=True,
        **{fact: known[fact] for fact in kept},
    )


# Channels, and parameters without the classifier (0 where only whitening layers are published).
_BACKBONES = {
    "alexnet": (256, 0),
    "vgg16": (512, 14_714_688),
    "resnet50": (2048, 23_508_032),
    "resnet101": (2048, 42_500_160),
    "resnet152": (2048, 58_143_808),
}
_GEM = 1  # p


def _linear(dim: int) -> int:
    return dim * dim + dim


# Families. A stem is a published file name without its .pth; cirtorch's end with the first seven
# digits of the file's sha256.

_GL18 = "Google Landmarks 2018"

GLDV2_OVERLAP = (
    "GLDv2-clean shares 36 of 70 ROxf and 38 of 70 RPar query landmarks, so these figures are not "
    "comparable with those of networks trained on GL18."
)
"""Caveat for ROxf and RPar figures of networks trained on GLDv2-clean."""


def _cirtorch(name: str, stem: str, task: Task, **facts: Any) -> NamedModel:
    """A file of cirtorch: its name tells the backbone, the training set and its hash."""
    original, _, sha256 = stem.rpartition("-")
    backbone = next(known for known in _BACKBONES if f"-{known}-" in stem)
    dim, parameters = _BACKBONES[backbone]
    kind = "whiten" if task == "whitening" else "networks"
    folder, trained_on = ("gl18", _GL18) if stem.startswith("gl18") else (SFM, SFM)
    if task == "backbone":
        folder, trained_on = "imagenet", "ImageNet (converted from Caffe)"
    # The publisher's own links say http; https comes first because seven digits of a hash guard
    # against accidents but not against tampering in transit.
    address = f"cmp.felk.cvut.cz/cnnimageretrieval/data/{kind}/{folder}/{stem}.pth"
    return NamedModel(
        name=name,
        task=task,
        file=f"{stem}.pth",
        urls=(f"https://{address}", f"http://{address}"),
        sha256=sha256,
        architecture=backbone,
        dim=dim,
        trained_on=trained_on,
        **{"aliases": (original,), "parameters": parameters, **facts},
    )


def _gem(name: str, stem: str, *results: float, aliases: tuple[str, ...] = ()) -> NamedModel:
    """A GeM network, with results in the order in which cirtorch prints them."""
    original = stem.rpartition("-")[0]
    end_to_end = original.endswith("-w")
    how = "scales 1, √2, 1/√2"
    if not end_to_end:
        how = "scales 1, 1/√2, 1/2, whitening learnt on retrieval-SfM-120k, rows (PyTorch)"
    entry = _cirtorch(
        name,
        stem,
        "retrieval",
        pooling="gem",
        whitening="end-to-end" if end_to_end else "learnt",
        reported={
            "roxford5k": {"medium": results[0], "hard": results[2]},
            "rparis6k": {"medium": results[1], "hard": results[3]},
        },
        source=f"cirtorch README: longer side 1024, {how}",
        licence=LICENCE,
        aliases=(original, *aliases),
    )
    head = _GEM + (_linear(entry.dim) if end_to_end else 0)
    return replace(entry, parameters=entry.parameters + head)


def _whiten(name: str, stem: str) -> NamedModel:
    entry = _cirtorch(name, stem, "whitening", licence=LICENCE)
    # …-resnet101-gem-r-rwhiten: between the backbone and the last word stands the pooling.
    pooling = stem.rpartition("-")[0].partition(f"-{entry.architecture}-")[2].rpartition("-")[0]
    return replace(entry, parameters=_linear(entry.dim), pooling=pooling)


_HOW = "ptak.felk.cvut.cz/personal/toliageo/share/how/models"


def _how(name: str, file: str, architecture: str, parameters: int, *medium: float) -> NamedModel:
    return NamedModel(
        name=name,
        task="local",
        file=file,
        urls=(f"https://{_HOW}/{file}", f"http://{_HOW}/{file}"),
        sha256=None,
        architecture=architecture,
        dim=128,
        parameters=parameters,
        trained_on=SFM,
        pooling="how",
        whitening="learnt",
        reported={
            "roxford5k": {"medium": medium[0]},
            "rparis6k": {"medium": medium[1]},
        },
        source="HOW README: ASMK* of 1,000 features, longer side 1024, seven scales",
        licence=LICENCE,
    )


_MODELS = (
    NamedModel(
        name="solar-r101",
        task="retrieval",
        file="resnet101-solar-best.pth",
        urls=(
            "https://imperialcollegelondon.box.com/shared/static/fznpeayct6btel2og2wjjgvqw0ziqnk4.pth",
        ),
        sha256=None,
        architecture="resnet101",
        dim=2048,
        parameters=56_145_729,
        trained_on=_GL18,
        attention="45",
        pooling="gem",
        whitening="end-to-end",
        reported={
            "roxford5k": {"easy": 85.88, "medium": 69.9, "hard": 47.91},
            "rparis6k": {"easy": 92.95, "medium": 81.57, "hard": 64.45},
            "roxford5k+1m": {"easy": 72.04, "medium": 53.49, "hard": 29.89},
            "rparis6k+1m": {"easy": 83.35, "medium": 59.19, "hard": 33.41},
        },
        source="SOLAR README: longer side 1024, scales 1, √2, 1/√2 (the paper rounds them)",
        licence=LICENCE,
    ),
    NamedModel(
        name="solar-r101-gldv2",
        task="retrieval",
        file="solar-r101-gldv2.pth",
        urls=(),
        sha256=None,
        architecture="resnet101",
        dim=2048,
        parameters=55_094_336,
        trained_on="Google Landmarks v2, clean, by the authors of Token",
        attention="5",
        pooling="gem-fixed",
        whitening="end-to-end",
        reported={
            "roxford5k": {"medium": 79.7, "hard": 60.0},
            "rparis6k": {"medium": 88.6, "hard": 76.2},
            "roxford5k+1m": {"medium": 67.6, "hard": 41.1},
            "rparis6k+1m": {"medium": 73.2, "hard": 51.0},
        },
        source="Token README (rounded): longer side 1024, scales 1, √2, 1/√2",
        licence=LICENCE,
        by_hand="R101-SOLAR from https://github.com/MCC-WH/Token (its README links "
        "https://drive.google.com/file/d/1CJNEeE0NDlsl56jnmsZFmPfH-jx32Syh/view)",
        caveat=GLDV2_OVERLAP,
    ),
    NamedModel(
        name="solar-local-345-liberty",
        task="patches",
        file="local-solar-345-liberty.pth",
        urls=(
            "https://imperialcollegelondon.box.com/shared/static/4djweum6gs30os243zqzplhafxlys31z.pth",
        ),
        sha256=None,
        architecture="l2net",
        dim=128,
        parameters=1_376_448,
        trained_on="UBC Liberty",
        attention="345",
        reported={"notredame": {"fpr95": 1.32}, "yosemite": {"fpr95": 0.46}},
        source="SOLAR paper, FPR@95 on UBC, SOSNet+ with SOA 3,4,5: mean of three runs, of which "
        "this file can be only one",
        licence=LICENCE,
    ),
    _gem("gem-r50-gl18", "gl18-tl-resnet50-gem-w-83fdc30", 63.6, 78.0, 40.9, 57.5),
    _gem("gem-r101-gl18", "gl18-tl-resnet101-gem-w-a4d43db", 67.3, 80.6, 44.3, 61.5),
    _gem("gem-r152-gl18", "gl18-tl-resnet152-gem-w-21278d5", 68.7, 79.7, 44.2, 60.3),
    _gem("gem-r50-sfm120k", "rSfM120k-tl-resnet50-gem-w-97bf910", 64.7, 76.3, 39.0, 54.9),
    _gem("gem-r101-sfm120k", "rSfM120k-tl-resnet101-gem-w-a155e54", 67.8, 77.6, 41.7, 56.3),
    _gem("gem-r152-sfm120k", "rSfM120k-tl-resnet152-gem-w-f39cada", 68.8, 78.0, 41.3, 57.2),
    _gem("gem-r101-sfm120k-lw", "retrievalSfM120k-resnet101-gem-b80fb85", 65.4, 76.7, 40.1, 55.2),
    _gem(
        "gem-vgg16-sfm120k-lw",
        "retrievalSfM120k-vgg16-gem-b4dcdc6",
        *(60.9, 69.3, 32.9, 44.2),
        aliases=("gem-vgg16-sfm120k",),  # nothing else is called that
    ),
    _cirtorch("imagenet-caffe-vgg16", "imagenet-caffe-vgg16-features-d369c8e", "backbone"),
    _cirtorch("imagenet-caffe-r50", "imagenet-caffe-resnet50-features-ac468af", "backbone"),
    _cirtorch("imagenet-caffe-r101", "imagenet-caffe-resnet101-features-10a101d", "backbone"),
    _cirtorch("imagenet-caffe-r152", "imagenet-caffe-resnet152-features-1011020", "backbone"),
    _whiten("whiten-alexnet-gem-sfm120k", "retrieval-SfM-120k-alexnet-gem-whiten-454ad53"),
    _whiten("whiten-alexnet-gem-r-sfm120k", "retrieval-SfM-120k-alexnet-gem-r-whiten-4c9126b"),
    _whiten("rwhiten-alexnet-gem-r-sfm120k", "retrieval-SfM-120k-alexnet-gem-r-rwhiten-c8cf7e2"),
    _whiten("whiten-vgg16-gem-sfm120k", "retrieval-SfM-120k-vgg16-gem-whiten-eaa6695"),
    _whiten("whiten-vgg16-gem-r-sfm120k", "retrieval-SfM-120k-vgg16-gem-r-whiten-83582df"),
    _whiten("rwhiten-vgg16-gem-r-sfm120k", "retrieval-SfM-120k-vgg16-gem-r-rwhiten-19b204e"),
    _whiten("whiten-r50-gem-sfm120k", "retrieval-SfM-120k-resnet50-gem-whiten-f15da7b"),
    _whiten("whiten-r101-gem-sfm120k", "retrieval-SfM-120k-resnet101-gem-whiten-22ab0c1"),
    _whiten("whiten-r101-gem-r-sfm120k", "retrieval-SfM-120k-resnet101-gem-r-whiten-b379c0a"),
    _whiten("rwhiten-r101-gem-r-sfm120k", "retrieval-SfM-120k-resnet101-gem-r-rwhiten-adace84"),
    _whiten("whiten-r101-gemmp-sfm120k", "retrieval-SfM-120k-resnet101-gemmp-whiten-770f53c"),
    _whiten("whiten-r101-mac-r-sfm120k", "retrieval-SfM-120k-resnet101-mac-r-whiten-9df41d3"),
    _whiten("rwhiten-r101-mac-r-sfm120k", "retrieval-SfM-120k-resnet101-mac-r-rwhiten-7f1ed8c"),
    _whiten("lwhiten-r101-sfm120k", "retrieval-SfM-120k-resnet101-lwhiten-9f830ef"),
    _whiten("whiten-r152-gem-sfm120k", "retrieval-SfM-120k-resnet152-gem-whiten-abe7b93"),
    _whiten("whiten-r101-gem-gl18", "gl18-50perlid-resnet101-gem-whiten-0ea46be"),
    _how("how-r18", "how_r18.pth", "resnet18", 11_242_176, 75.1, 79.4),
    _how("how-r50", "how_r50-.pth", "resnet50-conv4", 8_674_496, 78.3, 80.1),
    NamedModel(
        name="delf-r50",
        task="local",
        file="delf-r50.safetensors",
        urls=(),
        sha256=None,
        architecture="resnet50-conv4",
        dim=128,
        parameters=9_332_929,
        trained_on="labelled places of one's own",
        pooling="delf",
        recipe="recipes/delf-r50.yaml",
    ),
)


@cache
def _names() -> dict[str, NamedModel]:
    return {
        accepted.casefold(): entry
        for entry in models()
        for accepted in (entry.name, entry.file, Path(entry.file).stem, *entry.aliases)
    }
