"""The network that a retrieval run starts with: initial weights, whitening of local descriptors."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from solar.errors import SolarError
from solar.models import RetrievalConfig, RetrievalNet, retrieval_model
from solar.models.checkpoint import load_whitening
from solar.models.hub.pretrained import from_folder, pretrained_folder
from solar.models.retrieval_config import REDUCTIONS, attention_at
from solar.nn import BACKBONES, DAME, GeM
from solar.nn.local_pooling import How, smoothed
from solar.nn.pooling import LOCAL_POOLINGS, ClassTokenGeM
from solar.nn.whitening import whitening_of
from solar.training.distributed import share
from solar.training.retrieval.recipe import NetworkStart

COMPUTED = "computed from training photos"
"""Origin of a whitening that is still to be computed begins so."""

LOCAL_WHITENING_PHOTOS = 5000
"""Photos for the PCA of local descriptors, as published."""

_STRONGEST_LOCATIONS = 1000  # of a photo
_WHITENING_BATCH = 16  # photos


def build_network(settings: NetworkStart) -> tuple[RetrievalNet, dict[str, str]]:
    """Build a network on the CPU; returns it and the origin of the weights of its parts.

    The published run takes the backbone of one network, the whitening layer of another, a fresh
    exponent, and attention that starts as the identity. A SolarError if a file is missing or does
    not fit.
    """
    if settings.start is not None:
        return _fine_tuned(settings.start, settings.attention)
    origin = dict.fromkeys(("backbone", "pooling", "whitening"), "random")
    attention = attention_at(settings.attention, REDUCTIONS)
    head = {"pooling": settings.pooling, "whitening": settings.whitening, "dim": settings.dim}
    features = None
    if settings.features is not None:
        features = retrieval_model(settings.features, device="cpu")
    folder = None if settings.backbone in BACKBONES else pretrained_folder(settings.backbone)
    if folder is not None:
        net = from_folder(folder, attention=attention, **head)  # type: ignore[arg-type]
        origin["backbone"] = settings.backbone
    else:
        if settings.pooling in LOCAL_POOLINGS:
            head["scales"] = (1.0,)  # only local features are compared at several
        if features is not None:  # its weights expect photos like these
            head |= {"mean": features.config.mean, "std": features.config.std}
        net = RetrievalNet(RetrievalConfig(settings.backbone, attention, **head))  # type: ignore[arg-type]
    origin["attention"] = "identity" if settings.attention else "none"
    if features is not None:
        origin["attention"] = take_backbone(net, features, str(settings.features))
        origin["backbone"] = str(settings.features)
    origin["pooling"] = _start_pooling(net, settings, features)
    origin["whitening"] = _start_whitening(net, settings, features)
    return net, origin


def _fine_tuned(start: str, attention: str) -> tuple[RetrievalNet, dict[str, str]]:
    found = retrieval_model(start, device="cpu").with_adaptation(None)  # of the old weights
    wanted = attention_at(attention, REDUCTIONS)
    config = replace(found.config, attention={**wanted, **found.config.attention})
    net = RetrievalNet(config)
    missing = net.load_state_dict(found.state_dict(), strict=False).missing_keys
    added = sorted({name.split(".")[1] for name in missing})
    origin = dict.fromkeys(("backbone", "pooling", "whitening", "attention"), start)
    if added:
        origin["attention"] = f"identity in {', '.join(added)}"
    return net, origin


def take_backbone(net: RetrievalNet, features: RetrievalNet, name: str) -> str:
    """Copy the backbone of `features`, and the attention that both have; returns its origin.

    A SolarError, with the name, if the backbones differ.
    """
    own = net.backbone.state_dict()
    shared = {key: value for key, value in features.backbone.state_dict().items() if key in own}
    lacking = [key for key in own if key not in shared and not key.startswith("soa")]
    wrong = [key for key, value in shared.items() if value.shape != own[key].shape]
    if lacking or wrong:
        raise SolarError(
            f"{name} has another backbone ({features.config.backbone}) than {net.config.backbone}."
        )
    net.backbone.load_state_dict(shared, strict=False)
    if not net.config.attention:
        return "none"
    fresh = [layer for layer in net.config.attention if f"soa{layer}.output.weight" not in shared]
    return f"identity in {', '.join(f'soa{layer}' for layer in fresh)}" if fresh else name


def _start_pooling(net: RetrievalNet, settings: NetworkStart, features: RetrievalNet | None) -> str:
    pool = net.pool.gem if isinstance(net.pool, ClassTokenGeM) else net.pool
    if isinstance(pool, DAME):
        return "p = 3 for every image"
    if not isinstance(pool, GeM):
        return "has no weights"
    if settings.p is not None:
        nn.init.constant_(pool.p, settings.p)
        return f"p = {settings.p:g}"
    if features is None or not isinstance(features.pool, GeM):
        raise SolarError("network.p is null, but network.features has no exponent to take.")
    pool.load_state_dict(features.pool.state_dict())
    return str(settings.features)


def _start_whitening(
    net: RetrievalNet, settings: NetworkStart, features: RetrievalNet | None
) -> str:
    source = settings.whitening_from
    if isinstance(net.pool, How) and net.whiten is None:
        return _copy_local_whitening(net.pool, source, features)
    if net.whiten is None:
        return "none"
    if source is None:
        return "random"
    if source in ("learn", "pca"):
        return f"{COMPUTED} ({source})"
    if source == "features":
        layer = None if features is None else features.whiten
        source = str(settings.features)
    else:
        layer = _whitening(source)
    if layer is None:
        raise SolarError(f"network.whitening_from: {source} has no whitening layer.")
    if layer.weight.shape != net.whiten.weight.shape:
        raise SolarError(
            f"The whitening of {source} is {tuple(layer.weight.shape)}, "
            f"but {tuple(net.whiten.weight.shape)} is needed."
        )
    net.whiten.load_state_dict(layer.state_dict())
    return source


def _copy_local_whitening(pool: How, source: str | None, features: RetrievalNet | None) -> str:
    if source == "features" and features is not None and isinstance(features.pool, How):
        pool.load_state_dict(features.pool.state_dict())
        return source
    if source not in (None, "pca"):
        raise SolarError(
            f"network.whitening_from: local descriptors are whitened by pca, not by {source}."
        )
    return "random" if source is None else f"{COMPUTED} ({source} of local descriptors)"


def _whitening(source: str) -> nn.Linear | None:
    try:
        return load_whitening(source)
    except SolarError as no_layer:
        try:
            return retrieval_model(source, device="cpu").whiten
        except SolarError:
            raise no_layer from None


@torch.no_grad()
def start_local_whitening(net: RetrievalNet, squares: Iterable[NDArray[np.uint8] | None]) -> None:
    """Whiten HOW's local descriptors by PCA of the strongest ones in squares (h, w, 3).

    Unreadable photos are None.
    """
    assert isinstance(net.pool, How)
    channels = net.backbone.channels
    count, total = 0, torch.zeros(channels, dtype=torch.float64, device=net.device)
    second = torch.zeros(channels, channels, dtype=torch.float64, device=net.device)
    readable = (square for square in squares if square is not None)
    was_training = net.training
    net.eval()
    while some := list(islice(readable, _WHITENING_BATCH)):
        pixels = torch.from_numpy(np.stack(some)).to(net.device)
        rows = _strongest(net.pool, net.forward_features(net.normalise(pixels)).float()).double()
        count, total, second = count + len(rows), total + rows.sum(0), second + rows.T @ rows
    net.train(was_training)
    if count <= net.pool.dim:
        raise SolarError(
            f"{count} local descriptors are too few to whiten {net.pool.dim} directions: train on "
            "more or larger photos."
        )
    mean = total / count
    layer = whitening_of(mean, second / count - torch.outer(mean, mean)).linear()
    net.pool.start_from(*(share(part.to(net.device)) for part in (layer.weight, layer.bias)))


def _strongest(pool: How, maps: Tensor) -> Tensor:
    """The smoothed columns (n, c) of maps (b, c, h, w) at each photo's strongest locations."""
    strength, _ = pool.local(maps)
    best = strength.flatten(1).topk(min(_STRONGEST_LOCATIONS, strength[0].numel())).indices
    columns = smoothed(maps).flatten(2)
    return torch.cat([photo[:, rows].T for photo, rows in zip(columns, best, strict=True)])
