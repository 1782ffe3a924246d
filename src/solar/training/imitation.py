"""A student looks at what its teacher looks at: how far apart are they?"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.losses import info_nce, second_order
from solar.models import (
    REDUCTIONS,
    RetrievalConfig,
    RetrievalNet,
    attention_at,
    retrieval_model,
)
from solar.nn import GeM, l2_normalize
from solar.training.distill_recipe import Loss, Student
from solar.training.network import take_trunk
from solar.training.teacher import Projection, Teacher

_NEGATIVES = 5  # a photo, for the second-order loss; as many as the paper mines


class Imitator(nn.Module):
    """A student and the layers that take what it sees to what its teacher sees.

    Args:
        student: What to build; it has no whitening while it learns.
        teacher: Who is imitated.
    """

    def __init__(self, student: Student, teacher: Teacher) -> None:
        super().__init__()
        attention = attention_at(student.attention, REDUCTIONS)
        config = RetrievalConfig(student.backbone, attention, whitening=False, size=student.size)
        self.student = RetrievalNet(config, freeze_batch_norm=False)
        if student.start is not None:
            take_trunk(self.student, retrieval_model(student.start, device="cpu"), student.start)
        assert isinstance(self.student.pool, GeM)
        self.student.pool.p.data.fill_(student.p)
        self.student.pool.p.requires_grad_(False)
        channels = self.student.backbone.channels
        self.projection = Projection(channels, teacher)
        self.contrast = nn.Linear(channels, channels)
        nn.init.eye_(self.contrast.weight)

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
    """How far a student is from its teacher, and from seeing the same in what is; scalars.

    Attributes:
        places: One minus the cosine, over all locations of all photos.
        pooled: One minus the cosine of the descriptors.
        relation: Squared difference of the similarities of pairs.
        alike: The contrast of what shows the same with what does not.
        second_order: The second-order similarity loss of the same.
    """

    places: Tensor
    pooled: Tensor
    relation: Tensor
    alike: Tensor
    second_order: Tensor

    def total(self, weights: Loss) -> Tensor:
        """What is minimised."""
        return (
            weights.places * self.places
            + weights.pooled * self.pooled
            + weights.relation * self.relation
            + weights.alike * self.alike
            + weights.second_order * self.second_order
        )

    def numbers(self) -> dict[str, float]:
        """Plain values, fetched from the device at once."""
        names = [field.name for field in fields(self)]
        values = torch.stack([getattr(self, name).detach().float() for name in names])
        return dict(zip(names, values.tolist(), strict=True))


def distances(
    imitator: Imitator,
    teacher: Teacher,
    images: Tensor,
    weights: Loss,
    shown: Tensor | None = None,
) -> Distances:
    """Show both the same photos and compare.

    Args:
        imitator: The student.
        teacher: Who is imitated.
        images: (b, 3, h, w) in 0..1.
        weights: What is not weighted at all is not computed, but 0.
        shown: (b,) what each image shows: images that show the same should be alike. In the order
            of the images, the second half being other views of the first.
    """
    features, descriptors = teacher(images)
    seen, pooled, own = imitator(images, features.shape[-2:])
    with torch.autocast(images.device.type, enabled=False):
        places = 1 - F.cosine_similarity(seen.float(), features.float(), dim=1)
        vectors = 1 - F.cosine_similarity(pooled.float(), descriptors, dim=1)
        difference = own @ own.T - descriptors @ descriptors.T
        alike = similarity = own.new_zeros(())
        if shown is not None:
            rows = l2_normalize(imitator.contrast(own))
            kin = shown[:, None] == shown
            if weights.alike:
                alike = info_nce(rows, kin, temperature=weights.temperature)
            if weights.second_order:
                similarity = _second_order(rows, kin)
    return Distances(places.mean(), vectors.mean(), difference.square().mean(), alike, similarity)


def _second_order(rows: Tensor, kin: Tensor) -> Tensor:
    """Of the first half of the rows as anchors and the second half as their positives."""
    half = len(rows) // 2
    anchors, positives = rows[:half], rows[half:]
    with torch.no_grad():
        similarity = (anchors @ rows.T).masked_fill(kin[:half], -torch.inf)
        nearest = similarity.topk(_NEGATIVES, dim=1).indices
    return second_order(anchors, positives, rows[nearest])
