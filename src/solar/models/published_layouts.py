"""Layouts of published checkpoints: how their tensors are called and what their settings mean."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from torch import Tensor

from solar.errors import SolarError
from solar.models.patch_net import PatchConfig
from solar.models.retrieval_config import IMAGENET_MEAN, IMAGENET_STD, REDUCTIONS, RetrievalConfig
from solar.nn.backbones.convolutional import DESIGNS, BasicBlock, Bottleneck
from solar.nn.pooling import LOCAL_POOLINGS

# solar: the paper's own files. gem: cnnimageretrieval's networks. features: its bare backbones.
# torchvision: an ImageNet classifier. local: the paper's patch network. sosnet: SOSNet 32×32.
# token: SOLAR as the authors of Token retrained it. how: HOW. delg: the PyTorch port of DELG.
# dirtorch: Deep Image Retrieval, with the networks of the average-precision loss.
Layout = Literal[
    "solar", "gem", "features", "torchvision", "local", "sosnet", "token", "how", "delg", "dirtorch"
]

_ATTENTION = {"query": "f", "key": "g", "value": "h", "output": "v"}
_HEAD = (
    ("pool.pool.", "pool.rpool."),
    ("pool.fc.", "DAME3.fc."),
    ("local_whiten.", "lwhiten."),
)
# Our prefix to theirs; the first that fits is taken.
_PREFIXES: dict[Layout, tuple[tuple[str, str], ...]] = {
    "solar": (
        ("backbone.conv1.", "features.conv1.0."),
        ("backbone.bn1.", "features.conv1.1."),
        ("backbone.layer1.", "features.conv2_x.2."),
        *((f"backbone.layer{stage}.", f"features.conv{stage + 1}_x.") for stage in (2, 3, 4)),
        ("backbone.soa", "features.soa"),
        *_HEAD,
    ),
    "gem": (
        ("backbone.features.", "features."),
        ("backbone.conv1.", "features.0."),
        ("backbone.bn1.", "features.1."),
        *((f"backbone.layer{stage}.", f"features.{stage + 3}.") for stage in (1, 2, 3, 4)),
        *_HEAD,
    ),
    "torchvision": (("backbone.", ""),),
    "dirtorch": (("backbone.", ""), ("pool.", "adpool."), ("whiten.", "fc.")),
    "token": (
        ("backbone.conv1.", "backbone.block1.0."),
        ("backbone.bn1.", "backbone.block1.1."),
        *((f"backbone.layer{stage}.", f"backbone.block{stage + 1}.") for stage in (1, 2, 3, 4)),
        ("backbone.soa5.", "pooling."),
    ),
    "local": (
        ("trunk.layer1.0.", "layer1.1."),  # theirs counts the input's norm as 0
        ("trunk.layer1.1.", "layer1.2."),
        ("trunk.", ""),
    ),
    "sosnet": tuple(
        (f"trunk.layer{layer}.{part}.", f"layers.{place + part}.")
        for layer, place in enumerate((1, 4, 7, 10, 13, 16, 20), 1)
        for part in (0, 1)
    ),
}
_DAME_SCALES = (1.0, 2**-0.5, 0.5)
# Beginnings of tensors that only training needs, and of DELG's global branch.
UNUSED: Mapping[Layout, tuple[str, ...]] = {
    "torchvision": ("fc.", "classifier."),
    "token": ("classifier.weight",),
    "delg": ("globalmodel.s4.", "globalmodel.head.", "desc_cls.", "att_cls."),
}
_PREFIXES["how"] = (("pool.reduce.", "dim_reduction."), *_PREFIXES["gem"])
_PREFIXES["features"] = tuple(
    (ours, re.sub(r"^features\.", "", theirs)) for ours, theirs in _PREFIXES["gem"]
)


def published_name(name: str, layout: Layout) -> str:
    """The name of one of our tensors in a published file of this layout."""
    if layout == "delg":
        return delg_name(name)
    for ours, theirs in _PREFIXES[layout]:
        if name.startswith(ours):
            name = theirs + name.removeprefix(ours)
            break
    head = rf"^((?:(?:features\.)?soa\d|pooling)\.)({'|'.join(_ATTENTION)})\."
    return re.sub(head, lambda found: f"{found[1]}{_ATTENTION[found[2]]}.", name)


def published_names(names: Iterable[str], layout: Layout) -> dict[str, str]:
    """Our names of a network's tensors to those of a published file, as far as it has them."""
    # The GeM exponent of a token file is a constant of its code.
    return {
        name: published_name(name, layout)
        for name in names
        if not (layout == "token" and name == "pool.p")
    }


def published_shape(name: str, shape: Sequence[int], layout: Layout | None) -> tuple[int, ...]:
    """The shape that a file of this layout (None: ours) gives one of our tensors."""
    convolution = layout == "token" and name == "whiten.weight"  # ours is a linear layer
    return (*shape, 1, 1) if convolution else tuple(shape)


def layout_of(names: Container[str]) -> Layout | None:
    """The layout of a file, by names of tensors that only it has."""
    signs: dict[str, Layout] = {
        "features.conv1.0.weight": "solar",
        "dim_reduction.weight": "how",
        "localmodel.conv1.weight": "delg",
        "features.0.weight": "gem",
        "layer7.0.weight": "local",
        "layers.20.weight": "sosnet",
        "backbone.block1.0.weight": "token",
        "pooling.f.0.weight": "token",
        "adpool.p": "dirtorch",
        "0.weight": "features",
        "conv1.weight": "torchvision",
    }
    return next((layout for sign, layout in signs.items() if sign in names), None)


def layout_to_write(config: RetrievalConfig | PatchConfig, state: Mapping[str, Tensor]) -> Layout:
    """The layout that can hold a network of ours; a SolarError if there is none."""
    if isinstance(config, PatchConfig):
        if not config.has_published_layers:
            raise SolarError("The published format has no place for a patch network's own layers.")
        return "local"
    if config.post_whitening or not config.normalise_pooled:
        raise SolarError(
            "The published format has no place for this network's post-whitening layers, nor for "
            "pooled vectors of other lengths than 1."
        )
    if config.adaptation is not None:
        raise SolarError(
            "The published format has no place for this network's adaptation layer: convert the "
            "network that was adapted."
        )
    if config.pooling in LOCAL_POOLINGS:
        raise SolarError(
            f"Networks that pool by {config.pooling} can only be written as .safetensors."
        )
    if config.pooling != "gem-fixed":
        return "solar" if config.attention else "gem"
    known = _token_config(config.backbone)
    if replace(config, size=known.size, scales=known.scales) != known or state["pool.p"] != 3:
        raise SolarError(
            "The published format with a fixed GeM exponent has p = 3, attention after layer 5 "
            "alone and a whitening of all channels, unlike this network: write .safetensors."
        )
    return "token"


def _token_config(backbone: str) -> RetrievalConfig:
    return RetrievalConfig(backbone, attention={5: REDUCTIONS[5]}, pooling="gem-fixed")


def retrieval_config(
    layout: Layout, meta: Mapping[str, Any], state: Mapping[str, Tensor]
) -> RetrievalConfig:
    """Settings of a published network: its meta entry, and its tensors where that is silent."""
    if layout == "token":  # always the same parts, so that any that is not there can be named
        return _token_config(guess_backbone(layout, state) or "resnet101")
    # HOW's architecture does not tell that the last stage was left out.
    known = None if layout == "how" else meta.get("architecture")
    backbone = known or guess_backbone(layout, state)
    if backbone is None:
        raise SolarError(
            "The file does not say which backbone it holds, and its tensors fit none known."
        )
    if layout in ("how", "delg"):
        return _local_config(layout, str(backbone), meta)
    if layout == "dirtorch":
        return _dirtorch_config(str(backbone), meta, state)
    whitening = "whiten.weight" in state
    outputs, inputs = state["whiten.weight"].shape if whitening else (0, 0)
    dame = "DAME3.fc.weight" in state
    config = RetrievalConfig(
        backbone=str(backbone),
        attention=attention_layers(state),
        # The meta entry of a DAME file names the pooling of cnnimageretrieval.
        pooling="dame" if dame else str(meta.get("pooling", "gem")),
        regional=bool(meta.get("regional", False)),
        local_whitening=bool(meta.get("local_whitening", False)),
        whitening=whitening,
        dim=outputs if outputs != inputs else None,
        mean=_triple("mean", meta.get("mean", IMAGENET_MEAN)),
        std=_triple("std", meta.get("std", IMAGENET_STD)),
        post_whitening=tuple(learned_projections(meta)),
    )
    return replace(config, scales=_DAME_SCALES) if dame else config


def learned_projections(meta: Mapping[str, Any]) -> dict[Literal["single", "multi"], Any]:
    """The whitenings a GeM file carries beside its network: {"m": mean, "P": matrix} by use."""
    if pca := meta.get("pca"):  # of dirtorch, by the photos it was learned from
        chosen = pca.get("Landmarks_clean") or next(iter(pca.values()))
        return dict.fromkeys(("single", "multi"), chosen.learned())
    by_set = meta.get("Lw") or {}
    chosen = by_set.get("retrieval-SfM-120k") or by_set.get("retrieval-SfM-30k") or {}
    uses: Sequence[tuple[Literal["single", "multi"], str]] = (("single", "ss"), ("multi", "ms"))
    return {use: chosen[key] for use, key in uses if key in chosen}


class LearnedPCA:
    """What a file of dirtorch has in place of scikit-learn's PCA: its arrays, and no code."""

    power = 0.25
    """To which the variances are taken, by default in dirtorch."""

    def learned(self) -> dict[str, Any]:
        """The mean and the matrix of the whitening."""
        own = vars(self)
        matrix, mean = own["components_"], own["mean_"]
        if own.get("whiten"):
            matrix = matrix / own["explained_variance_"][:, None] ** self.power
        return {"m": mean, "P": matrix}


def _dirtorch_config(
    backbone: str, meta: Mapping[str, Any], state: Mapping[str, Tensor]
) -> RetrievalConfig:
    if meta.get("pooling", "gem") != "gem" or "adpool.p" not in state:
        raise SolarError("Of dirtorch's networks solar knows those that pool by GeM.")
    how, whitening = meta.get("preprocess") or {}, "fc.weight" in state
    outputs, inputs = state["fc.weight"].shape if whitening else (0, 0)
    return RetrievalConfig(
        backbone,
        whitening=whitening,
        normalise_pooled=bool(meta.get("norm_features", False)),
        dim=outputs if outputs != inputs else None,
        mean=_triple("mean", how.get("mean", IMAGENET_MEAN)),
        std=_triple("std", how.get("std", IMAGENET_STD)),
        scales=(1.0,),
        post_whitening=tuple(learned_projections(meta)),
    )


def published_meta(config: RetrievalConfig, dim: int) -> dict[str, Any]:
    """The meta entry that the published code needs to load a network of ours."""
    return {
        "architecture": config.backbone,
        "local_whitening": config.local_whitening,
        "pooling": config.pooling,
        "regional": config.regional,
        "whitening": config.whitening,
        "mean": list(config.mean),
        "std": list(config.std),
        "outputdim": dim,
        "soa": bool(config.attention),
        "soa_layers": "".join(str(layer) for layer in sorted(config.attention)),
    }


def guess_backbone(layout: Layout, state: Mapping[str, Tensor]) -> str | None:
    """The backbone that tensors of this layout seem to belong to."""
    if layout in ("gem", "features"):
        kinds = {13: "vgg16", 5: "alexnet"}
        plain = re.compile(r"(features\.)?\d+\.weight")
        convolutions = [k for k, v in state.items() if plain.fullmatch(k) and v.ndim == 4]
        if len(convolutions) in kinds:
            return kinds[len(convolutions)]
    stages = [published_name(f"backbone.layer{stage}.", layout) for stage in (1, 2, 3, 4)]
    if layout == "delg":
        stages = [f"globalmodel.s{stage}." for stage in (1, 2, 3, 4)]
    blocks = tuple(
        len({name.removeprefix(stage).split(".")[0] for name in state if name.startswith(stage)})
        for stage in stages
    )
    deep = any(name.endswith(("0.conv3.weight", "b1.f.c.weight")) for name in state)
    ending = ""
    if layout == "delg" or blocks[3] == 0:  # of DELG only the first three stages are used
        blocks, ending = blocks[:3], "-conv4"
    kind = Bottleneck if deep else BasicBlock
    for depth, (block, known) in DESIGNS.items():
        if block is kind and known[: len(blocks)] == blocks:
            return f"resnet{depth}{ending}"
    return None


def attention_layers(state: Mapping[str, Tensor]) -> dict[int, int]:
    """Layers with attention, with their channel reductions."""
    found = {}
    for name, tensor in state.items():
        match = re.fullmatch(r"(?:(?:features\.)?soa(\d)|pooling)\.f\.0\.weight", name)
        if match and tensor.ndim == 4 and tensor.shape[0]:
            found[int(match[1] or 5)] = tensor.shape[1] // tensor.shape[0]
    return dict(sorted(found.items()))


def _triple(key: str, values: Any) -> tuple[float, float, float]:
    numbers = [float(v) for v in values]
    if len(numbers) != 3:
        raise SolarError(
            f"The file's {key} has {len(numbers)} numbers where a colour photo needs 3."
        )
    return numbers[0], numbers[1], numbers[2]


def guess(state: Mapping[str, Tensor]) -> str:
    """The likely network that the tensors of a file belong to, for messages."""
    layout = layout_of(state)
    if layout is None:
        return "no architecture that solar knows"
    kinds = {"local": "a SOLAR patch network", "sosnet": "a SOSNet patch network"}
    kinds |= {"how": "a HOW network", "delg": "a DELG network"}
    backbone = None if layout in kinds else guess_backbone(layout, state)
    what = kinds.get(layout) or f"a {backbone or 'retrieval network of unknown backbone'}"
    layers = ", ".join(map(str, attention_layers(state)))
    return f"{what} with attention after layers {layers}" if layers else what


_STEM = "globalmodel.stem.conv.weight"
_PARTS = {"downsample.0": "proj", "downsample.1": "bn"}
for _number, _letter in enumerate("abc", 1):
    _PARTS |= {f"conv{_number}": f"f.{_letter}", f"bn{_number}": f"f.{_letter}_bn"}


def delg_name(name: str) -> str:
    """The name of one of our tensors in a file of DELG's port."""
    name = name.replace("pool.attention.", "localmodel.")
    name = name.replace("backbone.conv1.", "globalmodel.stem.conv.")
    name = name.replace("backbone.bn1.", "globalmodel.stem.bn.")
    block = re.fullmatch(r"backbone\.layer(\d)\.(\d+)\.(downsample\.\d|[a-z]+\d)\.(\w+)", name)
    if block is None:
        return name
    stage, number, part, what = block.groups()
    return f"globalmodel.s{stage}.b{int(number) + 1}.{_PARTS[part]}.{what}"


def from_bgr(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of DELG's port, which takes blue first, for red first."""
    if _STEM not in tensors or tensors[_STEM].ndim != 4:
        return dict(tensors)
    return {**tensors, _STEM: tensors[_STEM].flip(1)}


def _local_config(pooling: str, backbone: str, net_params: Mapping[str, Any]) -> RetrievalConfig:
    runtime = net_params.get("runtime")  # in files of HOW
    known = runtime.get("mean_std") if isinstance(runtime, Mapping) else None
    mean, std = known if known is not None else (IMAGENET_MEAN, IMAGENET_STD)
    return RetrievalConfig(
        backbone,
        pooling=pooling,
        whitening=False,
        scales=(1.0,),
        mean=_triple("mean", mean),
        std=_triple("std", std),
    )
