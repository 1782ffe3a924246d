"""mAP against the exponent p of GeM pooling (the paper's figure 5), in one pass over the photos."""

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from solar.describe.fast_net import FusedNet
from solar.describe.network import network_of
from solar.describe.pipeline import DescribingJob
from solar.describe.settings import Settings
from solar.errors import SolarError
from solar.evaluation.collection import DescribedSet, open_collection
from solar.evaluation.described_photos import DescribedPhotos, ModelDescriber, from_index
from solar.evaluation.result import Evaluation
from solar.evaluation.settings import EvaluationSettings
from solar.evaluation.table_text import Table, number
from solar.images import Box, Photos
from solar.index.describing import Describing
from solar.index.index import Index
from solar.index.ingest import apply, plan
from solar.models import RetrievalNet, retrieval_model
from solar.nn import GeM
from solar.storage.folder_engine import begin, finished, open_index
from solar.storage.rows import as_rows

EXPONENTS = (1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0)
"""From the average to nearly the maximum, closest where networks end up."""


@dataclass(frozen=True)
class Sweep:
    """One model with every exponent."""

    model: str  # its name
    learnt: float | None  # the exponent it was trained to; None where it has one per channel
    evaluations: Mapping[float, Evaluation]  # by exponent, ascending
    # Exponents that overflow float32, and for how many photos: these rank last, as published.
    out_of_range: Mapping[float, int] = field(default_factory=dict)

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
    settings: EvaluationSettings | None = None,
    **options: Any,
) -> Sweep:
    """Evaluate a model with other exponents in its pooling than the one it has learnt.

    The backbone runs once per photo and scale; pooling, whitening and norms run for each exponent.
    Results equal those of `evaluate` for the model with that exponent. Powers are taken in float32,
    as published, so large exponents lose small activations (the fall of the paper's curves beyond
    20) and overflow with large ones: photos to which that happens rank last.

    Args:
        what: As `evaluate` takes it.
        model: A network that pools with GeM.
        exponents: Positive; the learnt one is added.
        name: What to call the model; what it was loaded from, if not given.
        settings: How to do it, without features; distractors are photos.
        options: Fields of `EvaluationSettings`, which override `settings`.

    Raises:
        SolarError: The model does not pool with GeM, or the set cannot be evaluated.
    """
    if not exponents or any(not 0 < p < float("inf") for p in exponents):
        raise SolarError("A sweep needs one exponent or more, all of them positive.")
    given = replace(settings or EvaluationSettings(), **options).without_features("A sweep")
    net = retrieval_model(model, device=given.device)
    own = _gem(net).p
    learnt = float(own.item()) if own.numel() == 1 else None
    powers = sorted({float(p) for p in exponents} | ({learnt} if learnt is not None else set()))
    found, out_of_range = {}, {}
    with given.caching() as how:
        nets = [with_exponent(net, p) for p in powers]
        for which, p in enumerate(powers):
            described = open_collection(what, _Together(nets, which, how), how)
            found[p] = described.measure(how)
            if lost := _out_of_range(described):
                out_of_range[p] = lost
    return Sweep(name or str(model), learnt, found, out_of_range)


def _out_of_range(described: DescribedSet) -> int:
    """How many rows are all zeros: what `SharedBackbone` makes of those that are not finite."""
    parts = (described.database, described.queries, described.distractors)
    rows = [as_rows(part.rows) for part in parts if part is not None and part.known is not None]
    blocks = (block for part in rows for _, block in part.pieces())
    return sum(int((~block.any(axis=1)).sum()) for block in blocks)


@dataclass(frozen=True)
class _Together:
    """Describes by all networks at once, into one index, and gives what one of them has found."""

    nets: Sequence[RetrievalNet]  # they share the backbone of the first
    which: int
    settings: EvaluationSettings

    def __call__(self, photos: Photos, boxes: Mapping[str, Box]) -> DescribedPhotos:
        net, progress = network_of(self.nets[0]), self.settings.progress
        settings = Settings.of(net, **self.settings.describing, backend="torch")
        together = SharedBackbone(self.nets, scales=settings.scales, dtype=settings.dtype)
        how = Describing(net, DescribingJob(photos, settings, dict(boxes)), together)
        powers = json.dumps([_gem(each).p.tolist() for each in self.nets])
        alone = ModelDescriber(self.nets[0], self.settings).place(photos, boxes)
        place = alone.with_suffix(f".{hashlib.sha256(powers.encode()).hexdigest()[:8]}.solar")
        spec = replace(how.spec, dim=len(self.nets) * net.facts.dim)
        engine = open_index(place) if finished(place) else begin(place, spec, photos.roots)
        with Index(engine, self.nets[0]) as index:
            changes = plan(index, photos, engine.stamps())
            apply(index, photos, changes, complete=True, how=how, progress=progress)
            if engine.unfinished:
                engine.finish()
            found = from_index(index, photos)
        first = self.which * net.facts.dim
        return replace(found, rows=as_rows(found.rows).columns(first, first + net.facts.dim))


def with_exponent(net: RetrievalNet, p: float) -> RetrievalNet:
    """The same network with another exponent, sharing all but the pooling."""
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
    """Render: a row per exponent, mAP in percent for each set, protocol and model."""
    each = [(name, one) for name, many in sweeps.items() for one in many]
    head: list[tuple[str, ...]] = [("p",)]
    columns: list[tuple[Sweep, str]] = []
    for name, one in each:
        for protocol in one.protocols:
            shown = () if protocol == "all" else (protocol.capitalize(),)
            head.append((name, one.model, *shown))
            columns.append((one, protocol))
    rows = [
        [f"{p:.4g}{'*' * any(p == one.learnt for _, one in each)}"]
        + [
            number(100 * one.evaluations[p].mean("AP", level), 2) if p in one.evaluations else ""
            for one, level in columns
        ]
        for p in sorted({p for _, one in each for p in one.evaluations})
    ]
    note = "mAP in percent against the exponent p of GeM; * is the model's own."
    lost = [
        f"{count} of {one.model} on {name} at p = {p:g}"
        for name, one in each
        for p, count in one.out_of_range.items()
    ]
    if lost:
        note += f" Photos beyond the range of float32, ranked last: {', '.join(lost)}."
    return Table(head, [rows], note)


def to_json(sweeps: Mapping[str, Sequence[Sweep]]) -> dict[str, Any]:
    """Set to model to the learnt p and the means for every p."""
    return {
        name: {
            one.model: {
                "learnt": one.learnt,
                "sweep": [
                    {"p": p, "out_of_range": one.out_of_range.get(p, 0), **found.to_dict()}
                    for p, found in one.evaluations.items()
                ],
            }
            for one in many
        }
        for name, many in sweeps.items()
    }


class SharedBackbone(FusedNet):
    """Several networks with one backbone: their descriptors side by side, (b, networks · dim)."""

    def __init__(
        self,
        nets: Sequence[RetrievalNet],
        *,
        scales: Sequence[float],
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(nets[0], scales=scales, dtype=dtype)
        self.heads = list(nets)

    def _describe(self, pixels: Tensor) -> Tensor:
        maps = [self.net.backbone(images) for images in self.inputs(pixels)]
        each = [head.average([head.head(features) for features in maps]) for head in self.heads]
        return torch.cat([_finite(rows) for rows in each], dim=1)


def _finite(rows: Tensor) -> Tensor:
    """Descriptors that left the range of float32 become zeros: photos that are ranked last."""
    return torch.where(rows.isfinite().all(dim=1, keepdim=True), rows, torch.zeros_like(rows))
