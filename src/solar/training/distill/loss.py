"""Student network and distillation losses."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.losses import info_nce, nearest_negatives, second_order
from solar.models import REDUCTIONS, RetrievalConfig, RetrievalNet, attention_at, retrieval_model
from solar.nn import GeM, l2_normalize
from solar.training.distill.recipe import DistillLoss, Student
from solar.training.distill.teacher import Projection, Teacher
from solar.training.objective import Terms
from solar.training.retrieval.network import take_backbone


class Imitator(nn.Module):
    """A student, without whitening, and layers that take what it sees to what its teacher sees."""

    def __init__(self, student: Student, teacher: Teacher) -> None:
        super().__init__()
        attention = attention_at(student.attention, REDUCTIONS)
        config = RetrievalConfig(student.backbone, attention, whitening=False, size=student.size)
        self.student = RetrievalNet(config, freeze_batch_norm=False)
        if student.start is not None:
            take_backbone(self.student, retrieval_model(student.start, device="cpu"), student.start)
        assert isinstance(self.student.pool, GeM)
        self.student.pool.p.data.fill_(student.p)
        self.student.pool.p.requires_grad_(False)
        channels = self.student.backbone.channels
        self.projection = Projection(channels, teacher)
        self.contrast = nn.Linear(channels, channels)
        nn.init.eye_(self.contrast.weight)

    def forward(self, images: Tensor, grid: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Photos in 0..1 to what should be the teacher's map, its descriptor, and the own one."""
        features = self._features(images)
        descriptors = self.student.head(features)
        return (*self.projection(features, descriptors, grid), descriptors)

    def describe(self, images: Tensor) -> Tensor:
        """The student's own descriptors of photos in 0..1."""
        return self.student.head(self._features(images))

    def _features(self, images: Tensor) -> Tensor:
        normalised = (images - self.student.mean) / self.student.std
        features: Tensor = self.student.backbone(normalised)
        return features


def distances(
    imitator: Imitator,
    teacher: Teacher,
    images: Tensor,
    weights: DistillLoss,
    shown: Tensor | None = None,
) -> Terms:
    """Show both the same photos: how far is the student from its teacher, and from what is?

    Images are (b, 3, h, w) in 0..1, and `shown` (b,) what each shows: images that show the same
    should be alike. The second half are other views of the first.

    Returns:
        `loss`, the weighted sum of the others; `places` and `pooled`, one minus the cosine over all
        locations and of the descriptors; `relation`, how differently they say which images resemble
        each other; `alike`, the contrast of what shows the same with what does not; `second_order`,
        the second-order similarity loss of the same. The last three are 0 where they have no
        weight.
    """
    features, descriptors = teacher(images)
    seen, pooled, own = imitator(images, features.shape[-2:])
    with torch.autocast(images.device.type, enabled=False):
        places = 1 - F.cosine_similarity(seen.float(), features, dim=1)
        vectors = 1 - F.cosine_similarity(pooled.float(), descriptors, dim=1)
        relation = alike = similarity = own.new_zeros(())
        rows = l2_normalize(imitator.contrast(own))
        if weights.relation:
            relation = _relation(rows, descriptors, weights.temperature)
        if shown is not None:
            kin = shown[:, None] == shown
            if weights.alike:
                alike = info_nce(rows, kin, temperature=weights.temperature)
            if weights.second_order:
                similarity = second_order_of_views(rows, kin)
    found = {
        "places": places.mean(),
        "pooled": vectors.mean(),
        "relation": relation,
        "alike": alike,
        "second_order": similarity,
    }
    total: Any = sum(getattr(weights, name) * value for name, value in found.items())
    return {"loss": total, **found}


def _relation(rows: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """Divergence of the student's neighbours from the teacher's, each photo among all others."""
    itself = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    own, wanted = (
        (x @ x.T / temperature).masked_fill(itself, torch.finfo(x.dtype).min).log_softmax(dim=1)
        for x in (rows, taught)
    )
    return F.kl_div(own, wanted, reduction="batchmean", log_target=True)


def second_order_of_views(rows: Tensor, kin: Tensor) -> Tensor:
    """The second-order similarity loss of unit rows, the second half views of the first."""
    half = len(rows) // 2
    anchors, positives = rows[:half], rows[half:]
    return second_order(anchors, positives, nearest_negatives(anchors, rows, kin[:half]))
