"""Settings for training a patch network; the defaults are SOSNet's, with attention."""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from solar.datasets.patches.photo_points import PointSettings
from solar.losses import PATCH_LOSSES, PatchLoss
from solar.models import PATCH_REDUCTIONS, PatchConfig, attention_at
from solar.nn.l2net import PUBLISHED_LAYERS, DropoutPlace, check_layers
from solar.training.objective import call_with, check_kind
from solar.training.patches.views import Views
from solar.training.recipe import check_range
from solar.training.schedule import Schedule
from solar.training.shared_recipe import Data, Optimiser, Recipe, Validation


@dataclass(frozen=True)
class PatchNetwork:
    """The network to train.

    Attributes:
        attention: Layers with second-order attention, such as "345"; "" for none.
        dropout: Rate while training.
        dropout_place: "before" the last convolution (the paper) or "after" it (its code).
        layers: Channels and stride of each of the six 3×3 convolutions.
    """

    attention: str = "345"
    dropout: float = 0.1
    dropout_place: DropoutPlace = "before"
    layers: tuple[tuple[int, int], ...] = PUBLISHED_LAYERS

    def __post_init__(self) -> None:
        self.config()
        check_layers(self.layers)

    def config(self) -> PatchConfig:
        """The configuration of `PatchNet`."""
        attention = attention_at(self.attention, PATCH_REDUCTIONS)
        return PatchConfig(attention, self.dropout, self.dropout_place, self.layers)


@dataclass(frozen=True)
class PatchTeacher:
    """A network whose descriptors are imitated, in addition to the loss.

    Attributes:
        model: As for `solar.load`; "" for none.
        weight: Of the squared distances to its descriptors, summed over a batch.
        batches: Number of different batches, which are then repeated with remembered descriptors
            of the teacher (0.26 MB for 512 points): much faster if the teacher is large. 0: no
            repetition.
    """

    model: str = ""
    weight: float = 1.0
    batches: int = 0

    def __post_init__(self) -> None:
        check_range("teacher.weight", self.weight, 0)
        check_range("teacher.batches", self.batches, 0)


@dataclass(frozen=True)
class PatchData(Data):
    """Source of the pairs.

    Attributes:
        source: Photos (folders, lists, tar shards), or the folder of the sequences, of the
            PhotoTour subsets, or of the HPatches sequences.
        kind: "photos" cuts patches around keypoints on the fly; "sequences" does so in photos with
            known homographies; "phototour" and "hpatches" are ready-made patches.
        parts: PhotoTour subsets or HPatches sequences; default: all.
        points: Which keypoints of photos to use.
        per_photo: Keypoints per photo of a batch.
        turn: Rotate by quarter turns and mirror ready-made pairs.
        shrink: How HPatches' patches become 32×32: by "area" means, or "bilinear" as OpenCV does.
    """

    kind: Literal["photos", "sequences", "phototour", "hpatches"] = "photos"
    parts: tuple[str, ...] = ()
    points: PointSettings = field(default_factory=PointSettings)
    per_photo: int = 32
    turn: bool = True
    shrink: Literal["area", "bilinear"] = "area"


@dataclass(frozen=True)
class PatchLossSettings:
    """The loss.

    Attributes:
        kind: One of `solar.losses.PATCH_LOSSES`.
        margin: Of the hinge.
        neighbours: Of SOSNet's second-order part.
        options: Further settings of a loss, by the names of its parameters.
    """

    kind: str = "sosnet"
    margin: float = 1.0
    neighbours: int = 8
    options: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_kind(self.kind, PATCH_LOSSES)

    def __call__(self, left: Tensor, right: Tensor) -> PatchLoss:
        """Compare the descriptors (n, d) of first and second patches."""
        return call_with(PATCH_LOSSES[self.kind], self, left, right)


@dataclass(frozen=True)
class PatchValidation(Validation):
    """Chooses the best state; without a source that is the last one.

    Attributes:
        kind: "phototour": the lowest mean false positive rate at 95 % recall; "hpatches" (strips)
            and "sequences" (photos with homographies, cut as HPatches are): the best matching.
        source: Their folder.
        parts: PhotoTour subsets or HPatches sequences.
        every: Steps between validations; 0 for an epoch.
        shrink: As in the data.
    """

    every: int = 0
    kind: Literal["phototour", "hpatches", "sequences"] = "phototour"
    parts: tuple[str, ...] = ()
    shrink: Literal["area", "bilinear"] = "area"


@dataclass(frozen=True, kw_only=True)
class PatchRecipe(Recipe):
    """Settings for training a patch network; a batch counts pairs.

    Attributes:
        views: How the two patches of a pair differ if they are cut on the fly.
        teacher: The network to imitate, if any.
        sides: The first and the second patches of all pairs go through the batch norms "together",
            or "apart": one side after the other, each with statistics of its own.
        epochs: Used without `steps`; an epoch uses each patch, or each photo, once.
    """

    data: PatchData
    network: PatchNetwork = field(default_factory=PatchNetwork)
    views: Views = field(default_factory=Views)
    teacher: PatchTeacher = field(default_factory=PatchTeacher)
    loss: PatchLossSettings = field(default_factory=PatchLossSettings)
    optimiser: Optimiser = field(default_factory=lambda: Optimiser(lr=0.01))
    schedule: Schedule = field(default_factory=lambda: Schedule(kind="cosine", final=1e-5))
    validation: PatchValidation = field(default_factory=PatchValidation)
    task: Literal["patches"] = "patches"
    sides: Literal["together", "apart"] = "together"
    batch: int = 512
    epochs: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("epochs")
        check_range("batch", self.batch, 2)
