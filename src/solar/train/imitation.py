"""A student looks at what its teacher looks at: how far apart are they?"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.errors import SolarError
from solar.models import REDUCTIONS, RetrievalConfig, RetrievalNet, attention_at, load
from solar.nn import GeM
from solar.train.distill_recipe import Loss, Student
from solar.train.teacher import Projection, Teacher


class Imitator(nn.Module):
    """A student and the layers that take what it sees to what its teacher sees.

    Args:
        student: What to build; it has no whitening while it learns.
        teacher: Who is imitated.
    """

    def __init__(self, student: Student, teacher: Teacher) -> None:
        super().__init__()
        attention = attention_at(student.attention, REDUCTIONS)
        config = RetrievalConfig(student.backbone, attention, whitening=False)
        self.student = RetrievalNet(config, freeze_batch_norm=False)
        if student.start is not None:
            _start_from(self.student, student.start)
        assert isinstance(self.student.pool, GeM)
        self.student.pool.p.data.fill_(student.p)
        self.student.pool.p.requires_grad_(False)
        self.projection = Projection(self.student.backbone.channels, teacher)

    def forward(self, images: Tensor, grid: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Look at photos in 0..1.

        Returns:
            What should be the teacher's map, what should be its descriptor, and the student's own.
        """
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


@dataclass(frozen=True)
class Distances:
    """How far a student is from its teacher; scalars.

    Attributes:
        places: One minus the cosine, over all locations of all photos.
        pooled: One minus the cosine of the descriptors.
        relation: Squared difference of the similarities of pairs.
    """

    places: Tensor
    pooled: Tensor
    relation: Tensor

    def total(self, weights: Loss) -> Tensor:
        """What is minimised."""
        return (
            weights.places * self.places
            + weights.pooled * self.pooled
            + weights.relation * self.relation
        )


def distances(imitator: Imitator, teacher: Teacher, images: Tensor) -> Distances:
    """Show both the same photos, (b, 3, h, w) in 0..1, and compare."""
    features, descriptors = teacher(images)
    seen, pooled, own = imitator(images, features.shape[-2:])
    with torch.autocast(images.device.type, enabled=False):
        places = 1 - F.cosine_similarity(seen.float(), features.float(), dim=1)
        vectors = 1 - F.cosine_similarity(pooled.float(), descriptors, dim=1)
        difference = own @ own.T - descriptors @ descriptors.T
    return Distances(places.mean(), vectors.mean(), difference.square().mean())


def _start_from(student: RetrievalNet, source: str) -> None:
    known = load(source, device="cpu")
    ours = student.backbone.state_dict()
    theirs = known.backbone.state_dict() if isinstance(known, RetrievalNet) else {}
    lacking = [name for name in ours if name not in theirs and not name.startswith("soa")]
    if lacking or any(theirs[n].shape != ours[n].shape for n in ours if n in theirs):
        raise SolarError(f"The trunk of {source} is not a {student.config.backbone}.")
    student.backbone.load_state_dict({**ours, **{n: v for n, v in theirs.items() if n in ours}})
