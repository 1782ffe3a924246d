"""Fit a linear layer on frozen embeddings to labelled photos; kept if it helps significantly.

The layer, its loss and its optimiser are those of ILIAS (Kordopatis-Zilos et al. 2025): a
embedding x becomes unit(W x + b), every place has a vector, and the cross entropy of the cosines
to all of them is minimised. There the layer starts at random, which on a few thousand photos
overfits. Here it starts close to the identity, is pulled towards that start, and is kept only if it
helps with places it has not seen (`benchmarks/adapt.py`, docs/own-training.md).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.arrays import AnyFloats, Doubles, RowNumbers
from solar.datasets.labelled.photo_labels import folder_labels, read_labels
from solar.describe.progress import Progress, counted
from solar.errors import SolarError
from solar.evaluation.labelled import evaluate_labels
from solar.evaluation.result import interval
from solar.index.index import opened
from solar.index.photo_index import PhotoIndex
from solar.losses import cosface
from solar.models import RetrievalNet, fingerprint, retrieval_model, save
from solar.models.hub.repository import refuse_unfetched
from solar.models.inference import one_thread
from solar.nn import within_whitening
from solar.storage.types import DescriptorSpec

LEAST_PLACES = 10
"""With fewer, the confidence interval is too narrow."""

_DIM = 512

Labels: TypeAlias = str | Path | Mapping[str, str]


PlaceNames: TypeAlias = np.ndarray[Any, Any]
"""Names or numbers of the places that n photos show, (n,)."""


@dataclass(frozen=True)
class AdaptationSettings:
    """How a layer is trained and measured.

    Attributes:
        dim: Length of the new embedding; default: 512, or that of the old one if shorter.
        start: "whitened" within places, without bias, and every place starts as the mean of its
            photos; or "random", as published.
        shrink: How close the whitened start is to the identity: this multiple of the mean variance
            within places is added to that of every direction.
        pull: Weight of the squared distance of the layer to its start. Published: 0.
        epochs: Passes over the photos. Published: 2 to 5.
        batch: Photos per step.
        lr: Of Adam.
        weight_decay: Added to the gradient, not decoupled.
        scale: Factor of the cosines. Published: 16. Less suits noisy labels.
        margin: Subtracted from the cosine to a photo's own place.
        folds: Parts of the places, each held out once to measure on it.
        seed: Of all random numbers.
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


@dataclass(frozen=True, eq=False)
class Adaptation:
    """An adapted network, and its gain on places it was not trained on.

    Attributes:
        model: The network with a layer trained on all places.
        before: Mean average precision without the layer, from 0 to 1, averaged over places.
        after: The same with layers that were not trained on the place.
        low: Lower end of the 95 % confidence interval of the gain.
        high: Its upper end.
        photos: Number of photos the layer was trained on.
        places: Number of places they show.
    """

    model: RetrievalNet
    before: float
    after: float
    low: float
    high: float
    photos: int
    places: int

    @property
    def gain(self) -> float:
        """Increase of mAP."""
        return self.after - self.before

    def to_dict(self) -> dict[str, Any]:
        """The measurement as JSON, in percent."""
        percent = {
            name: 100 * getattr(self, name) for name in ("before", "after", "gain", "low", "high")
        }
        return {**percent, "photos": self.photos, "places": self.places, "dim": self.model.dim}


def adapt(
    source: PhotoIndex | str | Path,
    labels: Labels | None = None,
    output: str | Path | None = None,
    *,
    model: RetrievalNet | str | Path | None = None,
    settings: AdaptationSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Adaptation:
    """Train a linear layer on the embeddings of an index, and add it to the network that made them.

    The gain is measured by cross-validation on places that the layer was not trained on, a fifth of
    them at a time. Without a significant gain, nothing is written. The final layer is trained on
    all places.

    Example:
        >>> found = solar.adapt("photos.solar", "labels.csv", "mine.safetensors")
        >>> found.gain, found.low, found.high
        (0.021, 0.012, 0.031)

    Args:
        source: An index, or its address.
        labels: Labels of the photos: a CSV as for `solar.evaluate`, a JSON object of photo and
            label, or a mapping. Default: folder names. Photos without a label, and singletons, are
            ignored.
        output: Where to write the network, a `.safetensors`.
        model: The network that made the embeddings, if the one named in the index is missing.
        settings: How to train and measure.
        progress: Called with the name of the step, the number done and the total.
        options: Fields of `AdaptationSettings`, in place of those of `settings`.

    Raises:
        SolarError: The gain is not significant: its confidence interval includes zero. Or there are
            too few labels, or the network cannot be loaded.
    """
    settings = replace(settings or AdaptationSettings(), **options)
    if output is not None and Path(output).suffix != ".safetensors":
        raise SolarError(f"The output {output} must end in .safetensors.")
    with opened(source) as index:
        where, spec = index.place, index.spec
        described, stored = index.mapped()
    names = [photo.path for photo in described]
    net = _network(spec, model, where)
    rows, places = _labelled(names, labels, where)
    count = len(np.unique(places))
    if count < LEAST_PLACES:
        raise SolarError(
            f"The labels name {count} places with two photos or more in {where}, and a gain can "
            f"only be told from chance with {LEAST_PLACES}: label more places."
        )
    vectors = stored[rows].astype(np.float32)
    before, after = _held_out(vectors, places, settings, progress)
    low, high = interval(after - before, seed=settings.seed)
    means = float(before.mean()), float(after.mean())
    if low <= 0:
        raise SolarError(
            f"On places it was not trained on, a layer takes mAP from {100 * means[0]:.1f} to "
            f"{100 * means[1]:.1f} ({100 * (means[1] - means[0]):+.1f}, 95 % interval "
            f"{100 * low:+.1f} to {100 * high:+.1f}, {count} places), which is no significant "
            "gain, so nothing is written: label more places, or stay with "
            f"{spec.model or 'the model'}."
        )
    adapted = net.with_adaptation(trained_layer(vectors, places, settings))
    if output is not None:
        adapted.source = str(save(adapted, output).resolve())
    return Adaptation(adapted, *means, low, high, len(places), count)


# Training.


def trained_layer(
    vectors: AnyFloats, places: PlaceNames, settings: AdaptationSettings
) -> nn.Linear:
    """Train a layer for descriptors (n, dim) of places (n,), on the CPU."""
    x = torch.from_numpy(vectors)
    labels = torch.from_numpy(np.unique(places, return_inverse=True)[1])
    chance = torch.Generator().manual_seed(settings.seed)
    # Several cores gain nothing here, and took nine times as long on a busy CPU.
    with one_thread():
        layer, classes = _start(x, labels, settings, chance)
        fit(layer, classes, _batches(x, labels, settings, chance), settings)
    return layer.requires_grad_(False)


def fit(
    layer: nn.Linear,
    classes: Tensor,
    batches: Iterable[tuple[Tensor, Tensor]],
    settings: AdaptationSettings,
) -> list[float]:
    """Train a layer (d to e) and the vectors of the places (places, e), in place.

    Batches are descriptors (b, d) and the numbers of their places (b,). Returns the loss of each
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
    dim = min(_DIM, length) if settings.dim is None else settings.dim
    if not 0 < dim <= length:
        raise SolarError(f"Embeddings of length {length} cannot be adapted to {dim}: lower dim.")
    layer = nn.Linear(length, dim, device="meta").to_empty(device="cpu")
    with torch.no_grad():
        layer.bias.zero_()
        if settings.start == "random":
            nn.init.xavier_uniform_(layer.weight, generator=chance)
            bound = dim**-0.5  # that of nn.Linear
            return layer, torch.empty(count, dim).uniform_(-bound, bound, generator=chance)
        # A bias would fit this collection only, and push all other photos towards each other.
        layer.bias.requires_grad_(False)
        whiten = within_whitening(x, labels, settings.shrink)
        if dim < length:  # main directions, mean included: changes cosines least
            white = x.double() @ whiten.T
            whiten = torch.linalg.eigh(white.T @ white)[1].flip(1)[:, :dim].T @ whiten
        layer.weight.copy_(whiten)
        return layer, F.normalize(
            torch.zeros(count, dim).index_add_(0, labels, F.normalize(layer(x)))
        )


def _batches(
    x: Tensor, labels: Tensor, settings: AdaptationSettings, chance: torch.Generator
) -> Iterator[tuple[Tensor, Tensor]]:
    """Shuffled epochs, without incomplete batches."""
    size = min(settings.batch, len(x))
    for _ in range(settings.epochs):
        order = torch.randperm(len(x), generator=chance)
        for start in range(0, len(x) - size + 1, size):
            batch = order[start : start + size]
            yield x[batch], labels[batch]


# Measuring.


def _held_out(
    vectors: AnyFloats,
    places: PlaceNames,
    settings: AdaptationSettings,
    progress: Progress | None,
) -> tuple[Doubles, Doubles]:
    """The mAP of every place without a layer, and with one trained on other places."""
    count = min(settings.folds, len(np.unique(places)) // 2)
    before, after = [], []
    advance = counted(progress, "Measuring on held-out places", count)
    order = np.random.default_rng(settings.seed).permutation(np.unique(places))
    for fold in range(count):
        left_out = np.isin(places, order[fold::count])
        layer = trained_layer(vectors[~left_out], places[~left_out], settings)
        queries = vectors[left_out]
        before.append(_precision(queries, places[left_out]))
        adapted = F.normalize(layer(torch.from_numpy(queries))).numpy()
        after.append(_precision(adapted, places[left_out]))
        advance(1)
    return np.concatenate(before), np.concatenate(after)


def _precision(vectors: AnyFloats, places: PlaceNames) -> Doubles:
    """The mean average precision of each place, with its photos as queries among all."""
    found = evaluate_labels(vectors, places.tolist()).protocols["all"]["AP"]
    return np.array([found[places == place].mean() for place in np.unique(places)])


# Inputs.


def _labelled(
    names: Sequence[str], labels: Labels | None, where: object
) -> tuple[RowNumbers, PlaceNames]:
    """The rows whose label occurs more than once, and their labels."""
    if labels is None:
        known = dict(zip(names, folder_labels(names, where), strict=True))
    else:
        known = dict(labels if isinstance(labels, Mapping) else read_labels(labels))
        if not known.keys() & set(names):
            file = "The labels" if isinstance(labels, Mapping) else labels
            raise SolarError(
                f"{file} names no photo of {where}, whose first is {next(iter(names), 'missing')}: "
                "name the photos as `solar search` prints them."
            )
    rows = np.array([row for row, name in enumerate(names) if name in known], np.int64)
    places = np.array([known[names[row]] for row in rows], np.str_)
    _, number, counts = np.unique(places, return_inverse=True, return_counts=True)
    several = counts[number] > 1 if len(rows) else np.zeros(0, bool)
    return rows[several], places[several]


def _network(
    spec: DescriptorSpec, model: RetrievalNet | str | Path | None, where: object
) -> RetrievalNet:
    if model is None:
        refuse_unfetched(spec.model, where)
    try:
        net = retrieval_model(spec.model if model is None else model, device="cpu")
    except SolarError as error:
        if model is not None:
            raise
        raise SolarError(
            f"{where} was made by {spec.model or 'a model without a name'}, which cannot be loaded "
            f"({str(error).rstrip('.')}): give it with `model=`."
        ) from error
    if spec.fingerprint and fingerprint(net) != spec.fingerprint:
        raise SolarError(
            f"{where} was made with {spec.model or 'another model'}, not with "
            f"{net.source or 'the given model'}: give the right one with `model=`, or build the "
            "index again."
        )
    if net.dim != spec.dim:
        raise SolarError(
            f"{where} holds embeddings of length {spec.dim}, but the model computes {net.dim}: "
            "give the model that made them with `model=`."
        )
    if net.adapt is not None:
        raise SolarError(
            f"{where} was made with a network that is already adapted: build an index with the "
            "original network, and adapt that one with all labels."
        )
    return net
