"""Published networks for local features: HOW, and the PyTorch port of DELG."""

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from solar.models.retrieval_config import IMAGENET_MEAN, IMAGENET_STD, RetrievalConfig

UNUSED = ("globalmodel.s4.", "globalmodel.head.", "desc_cls.", "att_cls.")
"""Beginnings of what DELG's local branch has no use for: its global branch, and classifiers."""

_STEM = "globalmodel.stem.conv.weight"
_PARTS = {"downsample.0": "proj", "downsample.1": "bn"}
for _number, _letter in enumerate("abc", 1):
    _PARTS |= {f"conv{_number}": f"f.{_letter}", f"bn{_number}": f"f.{_letter}_bn"}


def delg_name(name: str) -> str:
    """What a file of DELG's port calls one of our tensors."""
    name = name.replace("pool.attention.", "localmodel.")
    name = name.replace("backbone.conv1.", "globalmodel.stem.conv.")
    name = name.replace("backbone.bn1.", "globalmodel.stem.bn.")
    block = re.fullmatch(r"backbone\.layer(\d)\.(\d+)\.(downsample\.\d|[a-z]+\d)\.(\w+)", name)
    if block is None:
        return name
    stage, number, part, what = block.groups()
    return f"globalmodel.s{stage}.b{int(number) + 1}.{_PARTS[part]}.{what}"


def from_bgr(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a network that takes blue first, which DELG's port does, for red first."""
    found = dict(tensors)
    if _STEM in found and found[_STEM].ndim == 4:
        found[_STEM] = found[_STEM].flip(1)
    return found


def local_config(pooling: str, backbone: str, net_params: Mapping[str, Any]) -> RetrievalConfig:
    """Settings of a published network; `net_params` is the entry of that name in a file of HOW."""
    runtime = net_params.get("runtime")
    known = runtime.get("mean_std") if isinstance(runtime, Mapping) else None
    mean, std = known if known is not None else (IMAGENET_MEAN, IMAGENET_STD)
    return RetrievalConfig(
        backbone,
        pooling=pooling,
        whitening=False,
        scales=(1.0,),
        mean=tuple(map(float, mean)),  # type: ignore[arg-type]
        std=tuple(map(float, std)),  # type: ignore[arg-type]
    )
