"""One linear layer on frozen descriptors: it learns from labelled photos in seconds.

The layer, its loss and its optimiser are those of ILIAS (Kordopatis-Zilos et al. 2025): a
descriptor x becomes unit(W x + b), every place has a vector, and the cross entropy of the cosines
to all of them is made small. There the layer starts at random; from a few thousand photos it would
then learn what other places are worse off with. So here it starts close to the identity, is held
near that start, and is kept only if it helps with places it has not seen (`benchmarks/adapt.py`,
docs/adapt.md).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.arrays import AnyFloats
from solar.errors import SolarError
from solar.losses import cosface
from solar.nn import within_whitening

DIM = 512

PlaceNames: TypeAlias = np.ndarray[Any, Any]
"""What each of n photos shows: names or numbers, (n,)."""


@dataclass(frozen=True)
class AdaptationSettings:
    """How a layer is trained and measured.

    Attributes:
        dim: Length of the new descriptor; 512, or that of the old one where it is shorter.
        start: "whitened": directions in which photos of one place differ count for less, no bias is
            learned, and every place begins as the mean of its photos; or "random", as published.
        shrink: How close the whitened start is to the identity: this multiple of the mean variance
            within places is added to that of every direction.
        pull: What the squared distance of the layer to its start costs. Published: 0.
        epochs: Passes over the photos. Published: 2 to 5.
        batch: Photos per step.
        lr: Of Adam.
        weight_decay: Added to the gradient, not decoupled.
        scale: What cosines are multiplied with. Published: 16. Less suits labels with mistakes.
        margin: What is subtracted from the cosine to a photo's own place.
        folds: Parts of the places, each of which is left out once to measure on it.
        seed: The same gives the same layer.
    """

    dim: int | None = None
    start: Literal["whitened", "random"] = "whitened"
    shrink: float = 10.0
    pull: float = 0.03
    epochs: int = 10
    batch: int = 128
    lr: float = 1e-3
    weight_decay: float = 1e-6
    scale: float = 8.0
    margin: float = 0.0
    folds: int = 5
    seed: int = 0


def trained_layer(
    vectors: AnyFloats, places: PlaceNames, settings: AdaptationSettings
) -> nn.Linear:
    """A layer for descriptors (n, dim) of places (n,), numbers or names; on the CPU."""
    x = torch.from_numpy(vectors)
    labels = torch.from_numpy(np.unique(places, return_inverse=True)[1])
    chance = torch.Generator().manual_seed(settings.seed)
    with _one_thread():
        layer, classes = _start(x, labels, settings, chance)
        fit(layer, classes, _batches(x, labels, settings, chance), settings)
    return layer.requires_grad_(False)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Compute on one core: products this small gain nothing from more.

    Where others are at work, threads that wait for each other took nine times as long.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def fit(
    layer: nn.Linear,
    classes: Tensor,
    batches: Iterable[tuple[Tensor, Tensor]],
    settings: AdaptationSettings,
) -> list[float]:
    """Train a layer (d to e) and the vectors of the places (places, e) in place.

    Batches are descriptors (b, d) and the numbers of their places (b,). Gives the loss of each
    batch before its step.
    """
    learned = [parameter for parameter in layer.parameters() if parameter.requires_grad]
    start = [parameter.detach().clone() for parameter in learned]
    optimiser = torch.optim.Adam(
        [*learned, classes.requires_grad_()], settings.lr, weight_decay=settings.weight_decay
    )
    losses = []
    for x, labels in batches:
        loss = place_loss(cosines(layer, classes, x), labels, settings)
        if settings.pull:
            moved = zip(learned, start, strict=True)
            loss = loss + settings.pull * sum((now - then).square().sum() for now, then in moved)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
        losses.append(loss.item())
    return losses


def cosines(layer: nn.Linear, classes: Tensor, x: Tensor) -> Tensor:
    """Cosines (b, places) of adapted descriptors (b, d) and the vectors of the places."""
    return F.normalize(layer(x)) @ F.normalize(classes).T


def place_loss(cosines: Tensor, labels: Tensor, settings: AdaptationSettings) -> Tensor:
    """Mean cross entropy of scaled cosines (b, places), less a margin at the label (b,)."""
    return F.cross_entropy(
        settings.scale * cosface(cosines, labels, margin=settings.margin), labels
    )


def _start(
    x: Tensor, labels: Tensor, settings: AdaptationSettings, chance: torch.Generator
) -> tuple[nn.Linear, Tensor]:
    length, count = x.shape[1], int(labels.max()) + 1
    dim = min(DIM, length) if settings.dim is None else settings.dim
    if not 0 < dim <= length:
        raise SolarError(f"Embeddings of length {length} cannot be adapted to {dim}: lower dim.")
    layer = nn.Linear(length, dim, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.bias.zero_()
        if settings.start == "random":
            nn.init.xavier_uniform_(layer.weight, generator=chance)
            bound = dim**-0.5  # that of nn.Linear
            return layer, torch.empty(count, dim).uniform_(-bound, bound, generator=chance)
        # It would be of this collection, and push photos of anything else towards each other.
        layer.bias.requires_grad_(False)
        whiten = within_whitening(x, labels, settings.shrink)
        if dim < length:  # main directions, with the mean in: cosines change least by that
            white = x.double() @ whiten.T
            whiten = torch.linalg.eigh(white.T @ white)[1].flip(1)[:, :dim].T @ whiten
        layer.weight.copy_(whiten)
        return layer, F.normalize(_sums(F.normalize(layer(x)), labels))


def _sums(x: Tensor, labels: Tensor) -> Tensor:
    return x.new_zeros(int(labels.max()) + 1, x.shape[1]).index_add_(0, labels, x)


def _batches(
    x: Tensor, labels: Tensor, settings: AdaptationSettings, chance: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Every photo once per epoch, in a random order; what is left of an epoch is dropped."""
    size = min(settings.batch, len(x))
    for _ in range(settings.epochs):
        order = torch.randperm(len(x), generator=chance)
        for start in range(0, len(x) - size + 1, size):
            batch = order[start : start + size]
            yield x[batch], labels[batch]
