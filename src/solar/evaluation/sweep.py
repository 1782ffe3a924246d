"""mAP against the exponent p of GeM pooling (the paper's figure 5), in one pass over the photos."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from solar.describe.shared_backbone import extract_together
from solar.describe.store import Store
from solar.errors import SolarError
from solar.evaluation.collection import (
    DescribedSet,
    Features,
    ModelDescriber,
    open_collection,
    stores_folder,
)
from solar.evaluation.layout import Table, number
from solar.evaluation.result import Evaluation
from solar.images import Box, Photos
from solar.models import RetrievalNet, retrieval_model
from solar.nn import GeM

EXPONENTS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0)
"""From the average to nearly the maximum, closest where networks end up."""


@dataclass(frozen=True)
class Sweep:
    """One model with every exponent.

    Attributes:
        model: Its name.
        learnt: The exponent it was trained to; None where it has one a channel.
        evaluations: Exponent to what was measured with it, ascending.
        out_of_range: Exponents that take a photo's activations out of the range of float32, so that
            it has no descriptor.
    """

    model: str
    learnt: float | None
    evaluations: Mapping[float, Evaluation]
    out_of_range: tuple[float, ...] = ()

    @property
    def protocols(self) -> list[str]:
        """Such as `medium`; `all` for a set without protocols."""
        return list(next(iter(self.evaluations.values())).protocols)


def sweep_p(
    what: str | Path,
    model: RetrievalNet | str | Path,
    exponents: Sequence[float] = EXPONENTS,
    *,
    name: str | None = None,
    root: str | Path | None = None,
    ground_truth: str | Path | None = None,
    distractors: Features | None = None,
    size: int | None = None,
    scales: Sequence[float] | None = None,
    cache: str | Path | None = None,
    average: str = "trapezoid",
    precision: str | None = None,
    device: str | None = None,
    watch: Callable[[int, int], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Evaluate a model with other exponents in its pooling than the one it has learnt.

    The trunk runs once a photo and scale; pooling, whitening and norms run for each exponent. Every
    number is the one that `evaluate` gives for the model with that exponent. Powers are taken in
    float32, as published, so large exponents lose small activations (the fall of the paper's curves
    beyond 20) and may overflow with large ones, which is told.

    Args:
        what: See `evaluate`, also for what is not named here.
        model: A network that pools with GeM.
        exponents: Positive; the learnt one is added.
        name: What to call the model; what it was loaded from, if not given.
        root: See `evaluate`.
        ground_truth: See `evaluate`.
        distractors: Photos; descriptors are of one exponent only.
        size: See `evaluate`.
        scales: See `evaluate`.
        cache: See `evaluate`; it holds a store an exponent.
        average: See `evaluate`.
        precision: See `evaluate`.
        device: See `evaluate`.
        watch: See `evaluate`.
        progress: See `evaluate`.

    Raises:
        SolarError: The model does not pool with GeM, an exponent is not positive, or the set cannot
            be evaluated.
    """
    if not exponents or any(not 0 < p < float("inf") for p in exponents):
        raise SolarError("The exponents of a sweep are positive numbers, at least one.")
    net = retrieval_model(model, device=device)
    learnt = learnt_exponent(net)
    powers = sorted({float(p) for p in exponents} | ({learnt} if learnt is not None else set()))
    chosen = None if scales is None else tuple(scales)
    each = [ModelDescriber(with_exponent(net, p), size, chosen) for p in powers]
    with stores_folder(cache) as folder:
        found, out_of_range = {}, []
        for which, p in enumerate(powers):
            opened = open_collection(
                what,
                _Together(each, which, progress),
                folder,
                root=root,
                ground_truth=ground_truth,
                distractors=distractors,
            )
            if not _all_described(opened):
                out_of_range.append(p)
                continue
            found[p] = opened.measure(
                average=average, precision=precision, device=device, watch=watch
            )
    if not found:
        raise SolarError("Every exponent takes activations out of float32: sweep smaller ones.")
    return Sweep(name or str(model), learnt, found, tuple(out_of_range))


def _all_described(opened: DescribedSet) -> bool:
    """Whether no row is all zeros: what `extract_together` makes of one that is not finite."""
    for part in (opened.database, opened.queries, opened.distractors):
        blocks = part.shard_arrays() if isinstance(part, Store) else [] if part is None else [part]
        if not all(block.any(axis=1).all() for block in blocks):
            return False
    return True


@dataclass(frozen=True)
class _Together:
    """Describes for all exponents at once what is asked for with one of them."""

    each: Sequence[ModelDescriber]
    which: int
    progress: Callable[[int, int], None] | None

    def __call__(
        self, photos: Photos, folder: Path, boxes: Mapping[str, Box] | None = None
    ) -> Store:
        if self.which == 0:
            first = self.each[0]
            extract_together(
                photos,
                [one.place(photos, folder, boxes) for one in self.each],
                [one.model for one in self.each],
                size=first.size,
                scales=first.scales,
                boxes=boxes,
                progress=self.progress,
            )
        return Store.open(self.each[self.which].place(photos, folder, boxes))


def learnt_exponent(net: RetrievalNet) -> float | None:
    """The exponent of a network's GeM; None where there is one a channel.

    Raises:
        SolarError: It does not pool with GeM.
    """
    p = _gem(net).p
    return float(p.item()) if p.numel() == 1 else None


def with_exponent(net: RetrievalNet, p: float) -> RetrievalNet:
    """The same network with another exponent; all but the pooling is shared with the first."""
    shared = {id(part): part for name, part in net.named_children() if name != "pool"}
    other = copy.deepcopy(net, shared)
    _gem(other).p.data.fill_(p)
    return other


def _gem(net: RetrievalNet) -> GeM:
    for part in net.pool.modules():
        if isinstance(part, GeM):
            return part
    raise SolarError(f"A network that pools with {net.config.pooling} has no exponent p to sweep.")


def to_table(sweeps: Mapping[str, Sequence[Sweep]]) -> Table:
    """Render: a row an exponent, mAP in percent for each set, protocol and model."""
    powers = sorted({p for many in sweeps.values() for one in many for p in one.evaluations})
    head: list[tuple[str, ...]] = [("p",)]
    columns: list[tuple[Sweep, str]] = []
    for name, many in sweeps.items():
        for one in many:
            for protocol in one.protocols:
                shown = () if protocol == "all" else (protocol.capitalize(),)
                head.append((name, one.model, *shown))
                columns.append((one, protocol))
    rows = [
        [f"{p:.4g}{'*' * any(p == one.learnt for one, _ in columns)}"]
        + [_cell(one.evaluations.get(p), protocol) for one, protocol in columns]
        for p in powers
    ]
    note = "mAP in percent against the exponent p of GeM; * is the model's own."
    return Table(head, [rows], note + _beyond(sweeps))


def _beyond(sweeps: Mapping[str, Sequence[Sweep]]) -> str:
    out = sorted({p for many in sweeps.values() for one in many for p in one.out_of_range})
    if not out:
        return ""
    return f" Out of the range of float32 for some photo: p = {', '.join(f'{p:g}' for p in out)}."


def _cell(found: Evaluation | None, protocol: str) -> str:
    return "" if found is None else number(100 * found.mean("AP", protocol), 2)


def to_json(sweeps: Mapping[str, Sequence[Sweep]]) -> dict[str, Any]:
    """The same for a program: set to model to the learnt p and the means for every p."""
    return {
        name: {
            one.model: {
                "learnt": one.learnt,
                "out_of_range": list(one.out_of_range),
                "sweep": [{"p": p, **found.to_dict()} for p, found in one.evaluations.items()],
            }
            for one in many
        }
        for name, many in sweeps.items()
    }
