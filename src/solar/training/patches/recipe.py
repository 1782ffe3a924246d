"""Settings for training a patch network; the defaults are SOSNet's, with attention."""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from solar.datasets.patches.photo_points import PointSettings
from solar.errors import SolarError
from solar.losses import PATCH_LOSSES, PatchLoss
from solar.models import PATCH_REDUCTIONS, PatchConfig
from solar.nn.l2net import PUBLISHED_LAYERS, DropoutPlace, check_layers
from solar.training.objective import call_with, check_kind
from solar.training.patches.views import Views
from solar.training.shared_recipe import Data, Optimiser, Recipe, Schedule, Validation


@dataclass(frozen=True)
class PatchNetwork:
    """What is trained.

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
        wrong = sorted(set(self.attention) - {str(layer) for layer in PATCH_REDUCTIONS})
        if wrong:
            raise SolarError(f"Attention goes after layers 3 to 6 of a patch network, not {wrong}.")
        check_layers(self.layers)

    def config(self) -> PatchConfig:
        """What `PatchNet` takes."""
        attention = {layer: PATCH_REDUCTIONS[layer] for layer in map(int, self.attention)}
        return PatchConfig(attention, self.dropout, self.dropout_place, self.layers)


@dataclass(frozen=True)
class PatchTeacher:
    """A network whose descriptors are to be imitated, beside what the loss asks for.

    Attributes:
        model: What `solar.load` takes; "" for none.
        weight: Of the squared distances to its descriptors, summed as the losses of a batch are.
        batches: Different batches. After these the same ones come again, and the teacher's
            descriptors of them are remembered (0.26 MB for 512 points), which saves most of the
            time where the teacher is large. 0: no batch comes twice.
    """

    model: str = ""
    weight: float = 1.0
    batches: int = 0

    def __post_init__(self) -> None:
        if self.weight < 0 or self.batches < 0:
            raise SolarError("teacher.weight and teacher.batches must be 0 or more.")


@dataclass(frozen=True)
class PatchData(Data):
    """Where the pairs come from.

    Attributes:
        source: Photos (folders, lists, tar shards), or the folder of the sequences, of the
            PhotoTour subsets, or of the HPatches sequences.
        kind: "photos" cuts patches around keypoints on the fly; "sequences" does so in photos with
            known homographies; "phototour" and "hpatches" were cut by others.
        parts: PhotoTour subsets or HPatches sequences; none named: all there are.
        points: Which keypoints of photos to use.
        per_photo: Keypoints of each photo of a batch.
        turn: Turn by quarters and mirror pairs that others cut.
    """

    kind: Literal["photos", "sequences", "phototour", "hpatches"] = "photos"
    parts: tuple[str, ...] = ()
    points: PointSettings = field(default_factory=PointSettings)
    per_photo: int = 32
    turn: bool = True


@dataclass(frozen=True)
class PatchLossSettings:
    """What is minimised.

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
        every: Steps from one validation to the next; 0 for an epoch.
    """

    every: int = 0
    kind: Literal["phototour", "hpatches", "sequences"] = "phototour"
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PatchRecipe(Recipe):
    """Everything that decides what a training run gives; a batch counts points of two patches each.

    Attributes:
        views: How the two patches of a pair differ, where they are cut on the fly.
        teacher: The network to imitate, if any.
        epochs: How long, unless `steps` says it; an epoch uses each patch, or each photo, once.
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
    batch: int = 512
    epochs: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("epochs")
        if self.batch < 2:
            raise SolarError(f"batch must be 2 or more, not {self.batch}.")
