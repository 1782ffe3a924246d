"""Fit a linear layer to labelled photos, kept only if it helps significantly."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from solar.arrays import AnyFloats, Doubles, RowNumbers
from solar.datasets.labelled.photo_labels import folder_labels, read_labels
from solar.describe.progress import Progress, counted
from solar.describe.store import Store
from solar.describe.store_files import is_store
from solar.errors import SolarError
from solar.evaluation.labelled import evaluate_labels
from solar.evaluation.significance import interval
from solar.index.index import Index, need_vectors
from solar.index.sources import spec_of
from solar.models import RetrievalNet, fingerprint, retrieval_model, save
from solar.models.checkpoint import load_whitening
from solar.models.hub.repository import refuse_unfetched
from solar.storage.protocol import NoIndexError
from solar.storage.types import DescriptorSpec
from solar.training.linear_layer import AdaptationSettings, PlaceNames, trained_layer

LEAST_PLACES = 10
"""Fewer say nothing about others: an interval over so few is too narrow."""

Labels: TypeAlias = str | Path | Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Adaptation:
    """An adapted network, and how much better it finds photos of places that it has not seen.

    Attributes:
        model: The network with its layer, which learned from all places.
        before: Mean average precision without the layer, from 0 to 1, every place counting alike.
        after: The same with a layer that has not seen the place asked for.
        low: Lower end of the 95 % confidence interval of the gain.
        high: Its upper end.
        photos: How many the layer learned from.
        places: How many they show.
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
        """How much mAP rises."""
        return self.after - self.before

    def to_dict(self) -> dict[str, Any]:
        """What was measured, in percent, as JSON."""
        shares = {"before": self.before, "after": self.after, "gain": self.gain}
        shares |= {"low": self.low, "high": self.high}
        percent = {name: 100 * share for name, share in shares.items()}
        return {**percent, "photos": self.photos, "places": self.places, "dim": self.model.dim}


def adapt(
    source: Store | str | Path,
    labels: Labels | None = None,
    output: str | Path | None = None,
    *,
    model: RetrievalNet | str | Path | None = None,
    layer: nn.Linear | str | Path | None = None,
    settings: AdaptationSettings | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Adaptation:
    """Train a linear layer on stored embeddings, and add it to the network that made them.

    The gain is measured by cross-validation on places that the layer was not trained on, a fifth of
    them at a time. Without a significant gain, nothing is written. The final layer is trained on
    all places.

    Example:
        >>> found = solar.adapt("photos.store", "labels.csv", "mine.safetensors")
        >>> found.gain, found.low, found.high
        (0.021, 0.012, 0.031)

    Args:
        source: A store of `solar.extract`, or an index.
        labels: Labels of the photos: a CSV as for `solar.evaluate`, a JSON object of photo and
            label, or a mapping. Default: folder names. Photos without a label, and singletons, are
            left out.
        output: Where to write the network, a `.safetensors`.
        model: The network that made the embeddings, if the one named in the store is missing.
        layer: Measure and keep this layer in place of a trained one: a file as ILIAS publishes them
            (`layer.weight` and `layer.bias`) for the descriptors of some networks.
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
    where = getattr(source, "path", source)
    names, spec, read = _described(source)
    net = _network(spec, model, where)
    given = None if layer is None else _fitting(layer, net)
    rows, places = _labelled(names, labels, where)
    count = len(np.unique(places))
    if count < LEAST_PLACES:
        raise SolarError(
            f"The labels name {count} places with two photos or more in {where}, and a gain can "
            f"only be told from chance with {LEAST_PLACES}: label more places."
        )
    vectors = read(rows).astype(np.float32)
    before, after = _held_out(vectors, places, given, settings, progress)
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
    adapted = net.with_adaptation(given or trained_layer(vectors, places, settings))
    if output is not None:
        adapted.source = str(save(adapted, output).resolve())
    return Adaptation(adapted, *means, low, high, len(places), count)


# Measuring.


def _held_out(
    vectors: AnyFloats,
    places: PlaceNames,
    given: nn.Linear | None,
    settings: AdaptationSettings,
    progress: Progress | None,
) -> tuple[Doubles, Doubles]:
    """The mAP of every place without a layer, and with the one given or one without this place."""
    count = min(settings.folds, len(np.unique(places)) // 2)
    before, after = [], []
    advance = counted(progress, "Measuring on held-out places", count)
    for left_out in _folds(places, count, settings.seed):
        layer = given or trained_layer(vectors[~left_out], places[~left_out], settings)
        asking = vectors[left_out]
        before.append(_precision(asking, places[left_out]))
        after.append(_precision(_adapted(layer, asking), places[left_out]))
        advance(1)
    return np.concatenate(before), np.concatenate(after)


def _folds(
    places: PlaceNames, count: int, seed: int
) -> Iterator[np.ndarray[Any, np.dtype[np.bool_]]]:
    """Which rows to leave out: each place once, about as many in every fold."""
    order = np.random.default_rng(seed).permutation(np.unique(places))
    for fold in range(count):
        yield np.isin(places, order[fold::count])


def _precision(vectors: AnyFloats, places: PlaceNames) -> Doubles:
    """The mean average precision of each place, whose photos ask for each other among all."""
    found = evaluate_labels(vectors, places.tolist()).protocols["all"]["AP"]
    return np.array([found[places == place].mean() for place in np.unique(places)])


def _adapted(layer: nn.Linear, vectors: AnyFloats) -> AnyFloats:
    rows: AnyFloats = F.normalize(layer(torch.from_numpy(vectors))).numpy()
    return rows


# What is there.


def _described(
    source: Store | str | Path,
) -> tuple[Sequence[str], DescriptorSpec, Callable[[RowNumbers], AnyFloats]]:
    if isinstance(source, Store) or is_store(source):
        store = source if isinstance(source, Store) else Store.open(source)
        return store.names, spec_of(store), store.vectors
    try:
        index = need_vectors(Index.open(source))
    except NoIndexError:
        raise SolarError(
            f"{source} is neither a store nor an index: make a store with `solar extract`."
        ) from None
    parts = list(index.engine.batches())
    names = [photo.path for photos, _ in parts for photo in photos]
    return names, index.spec, lambda rows: np.concatenate([part for _, part in parts])[rows]


def _labelled(
    names: Sequence[str], labels: Labels | None, where: object
) -> tuple[RowNumbers, PlaceNames]:
    """The rows with a label that another row has, too, and their labels."""
    if labels is None:
        known = dict(zip(names, folder_labels(names, where), strict=True))
    else:
        known = dict(labels if isinstance(labels, Mapping) else read_labels(labels))
        if not known.keys() & set(names):
            file = "The labels" if isinstance(labels, Mapping) else labels
            raise SolarError(
                f"{file} names no photo of {where}, whose first is {next(iter(names), 'missing')}: "
                "name the photos as `solar extract` did, relative to the folder it was given."
            )
    rows = np.array([row for row, name in enumerate(names) if name in known], np.int64)
    places = np.array([known[names[row]] for row in rows], np.str_)
    _, number, counts = np.unique(places, return_inverse=True, return_counts=True)
    several = counts[number] > 1 if len(rows) else np.zeros(0, bool)
    return rows[several], places[several]


def _fitting(layer: nn.Linear | str | Path, net: RetrievalNet) -> nn.Linear:
    given = layer if isinstance(layer, nn.Linear) else load_whitening(layer)
    if given.in_features != net.dim:
        raise SolarError(
            f"The layer takes embeddings of length {given.in_features}, but the network computes "
            f"{net.dim}: choose a layer for this network."
        )
    return given.requires_grad_(False)


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
            f"{net.source or 'the given model'}: give the right one with `model=`, or extract the "
            "photos again."
        )
    if net.dim != spec.dim:
        raise SolarError(
            f"{where} holds embeddings of length {spec.dim}, but the model computes {net.dim}: "
            "give the model that made them with `model=`."
        )
    if net.adapt is not None:
        raise SolarError(
            f"{where} was made with a network that is already adapted: extract the photos with the "
            "original network, and adapt that one with all labels."
        )
    return net
