"""Student network and distillation losses."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.losses import info_nce, second_order_of_views
from solar.nn import l2_normalize
from solar.training.distill.recipe import DistillLoss, Student
from solar.training.distill.teacher import Teacher
from solar.training.objective import Terms
from solar.training.retrieval.recipe import NetworkStart
from solar.training.retrieval.start import build_network


class Imitator(nn.Module):
    """A student without whitening, and the layers that its losses need."""

    def __init__(self, student: Student, teacher: Teacher) -> None:
        super().__init__()
        start = NetworkStart(
            backbone=student.backbone,
            attention=student.attention,
            whitening=False,
            features=student.start,
            p=student.p,
        )
        self.student, _ = build_network(start)
        self.student.freeze_batch_norm = False
        config = replace(self.student.config, size=student.size, scales=student.scales)
        self.student.config = config
        self.student.pool.requires_grad_(False)
        channels = self.student.backbone.channels
        # Only training needs these.
        self.places = nn.Conv2d(channels, teacher.channels, 1)
        self.pooled = nn.Linear(channels, teacher.dim)
        self.contrast = nn.Linear(channels, channels)
        nn.init.eye_(self.contrast.weight)

    def forward(self, images: Tensor, grid: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Photos in 0..1 to the imitated map and descriptor, and the student's descriptor.

        The map is (b, teacher's channels, *grid).
        """
        features = self._features(images)
        descriptors = self.student.head(features)
        if list(features.shape[-2:]) != list(grid):
            features = F.interpolate(features, list(grid), mode="bilinear", align_corners=False)
        return self.places(features), self.pooled(descriptors), descriptors

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
    """Distillation losses of images (b, 3, h, w) in 0..1 with labels `shown` (b,), if any.

    The second half of labelled images are other views of the first.

    Returns:
        `loss`, the weighted sum of the others; `places` and `pooled`, one minus the cosine over all
        locations and of the descriptors; `relation`, the divergence of their similarities among
        images; `alike`, the contrast of images of one label with all others; `second_order`, the
        second-order similarity loss of the same. The last three are 0 without a weight.
    """
    features, descriptors = teacher(images)
    imitated, pooled, descriptor = imitator(images, features.shape[-2:])
    with torch.autocast(images.device.type, enabled=False):
        places = 1 - F.cosine_similarity(imitated.float(), features, dim=1)
        vectors = 1 - F.cosine_similarity(pooled.float(), descriptors, dim=1)
        relation = alike = similarity = descriptor.new_zeros(())
        rows = l2_normalize(imitator.contrast(descriptor))
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


def _relation(rows: Tensor, teacher_rows: Tensor, temperature: float) -> Tensor:
    """KL divergence of the student's softmax over the other photos from the teacher's."""
    itself = torch.eye(len(rows), dtype=torch.bool, device=rows.device)
    student, teacher = (
        (x @ x.T / temperature).masked_fill(itself, torch.finfo(x.dtype).min).log_softmax(dim=1)
        for x in (rows, teacher_rows)
    )
    return F.kl_div(student, teacher, reduction="batchmean", log_target=True)
