"""Settings for training a patch network; the defaults are SOSNet's, with attention."""

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from solar.datasets.photo_points import PointSettings
from solar.errors import SolarError
from solar.losses import PatchLoss, hardnet, sosnet
from solar.models import PATCH_REDUCTIONS, PatchConfig
from solar.nn.l2net import DropoutPlace
from solar.training.patch_views import Views
from solar.training.schedule import Schedule


@dataclass(frozen=True)
class Network:
    """What is trained.

    Attributes:
        attention: Layers with second-order attention, such as "345"; "" for none.
        dropout: Rate while training.
        dropout_place: "before" the last convolution (the paper) or "after" it (its code).
    """

    attention: str = "345"
    dropout: float = 0.1
    dropout_place: DropoutPlace = "before"

    def __post_init__(self) -> None:
        wrong = sorted(set(self.attention) - {str(layer) for layer in PATCH_REDUCTIONS})
        if wrong:
            raise SolarError(f"Attention goes after layers 3 to 6 of a patch network, not {wrong}.")

    def config(self) -> PatchConfig:
        """What `PatchNet` takes."""
        layers = (int(layer) for layer in self.attention)
        attention = {layer: PATCH_REDUCTIONS[layer] for layer in layers}
        return PatchConfig(attention, self.dropout, self.dropout_place)


@dataclass(frozen=True)
class Data:
    """Where the pairs come from.

    Attributes:
        kind: "photos" cuts patches around keypoints on the fly; "sequences" does so in photos with
            known homographies; "phototour" and "hpatches" were cut by others.
        source: Photos (folders, lists, tar shards), or the folder of the sequences, of the
            PhotoTour subsets, or of the HPatches sequences.
        parts: PhotoTour subsets or HPatches sequences; none named: all there are.
        points: Which keypoints of photos to use.
        per_photo: Keypoints of each photo of a batch.
        turn: Turn by quarters and mirror pairs that others cut.
    """

    source: tuple[str, ...]
    kind: Literal["photos", "sequences", "phototour", "hpatches"] = "photos"
    parts: tuple[str, ...] = ()
    points: PointSettings = field(default_factory=PointSettings)
    per_photo: int = 32
    turn: bool = True

    def __post_init__(self) -> None:
        if not self.source:
            raise SolarError("data.source names no photos.")


@dataclass(frozen=True)
class Loss:
    """What is minimised.

    Attributes:
        kind: sosnet or hardnet.
        margin: Of the hinge.
        neighbours: Of SOSNet's second-order part.
    """

    kind: Literal["sosnet", "hardnet"] = "sosnet"
    margin: float = 1.0
    neighbours: int = 8

    def __call__(self, left: Tensor, right: Tensor) -> PatchLoss:
        """Compare the descriptors (n, d) of first and second patches."""
        if self.kind == "hardnet":
            return hardnet(left, right, margin=self.margin)
        return sosnet(left, right, margin=self.margin, neighbours=self.neighbours)


@dataclass(frozen=True)
class Optimiser:
    """How weights move.

    Attributes:
        kind: adam or sgd.
        rate: The learning rate.
        decay: Weight decay (L2).
        momentum: Of sgd.
        dampening: Of sgd.
    """

    kind: Literal["adam", "sgd"] = "adam"
    rate: float = 0.01
    decay: float = 0.0
    momentum: float = 0.9
    dampening: float = 0.0


@dataclass(frozen=True)
class Validation:
    """Chooses the best state; without a source that is the last one.

    Attributes:
        kind: "phototour": the lowest mean false positive rate at 95 % recall; "hpatches" (strips)
            and "sequences" (photos with homographies, cut as HPatches are): the best matching.
        source: Their folder.
        parts: PhotoTour subsets or HPatches sequences.
        every: Steps from one validation to the next; 0 for an epoch.
    """

    kind: Literal["phototour", "hpatches", "sequences"] = "phototour"
    source: str | None = None
    parts: tuple[str, ...] = ()
    every: int = 0


@dataclass(frozen=True)
class Compute:
    """How to compute.

    Attributes:
        device: cpu or cuda; found out if not given.
        precision: "auto" is bf16 on a GPU and float32 elsewhere; losses are always float32.
        compile: Let torch compile the network: a minute at the start, then faster steps.
    """

    device: Literal["cpu", "cuda"] | None = None
    precision: Literal["auto", "float32", "tf32", "bf16"] = "auto"
    compile: bool = False


@dataclass(frozen=True)
class PatchRecipe:
    """Everything that decides what a training run gives.

    Attributes:
        data: Where the pairs come from.
        network: What is trained.
        views: How the two patches of a pair differ, where they are cut on the fly.
        loss: What is minimised.
        optimiser: How weights move.
        schedule: How the learning rate falls.
        validation: How the best state is chosen.
        compute: How to compute.
        task: Always "patches".
        batch: Points a step, two patches each.
        epochs: How long; an epoch uses each patch, or each photo, once.
        steps: How long instead.
        seconds: Stop early, after so long.
        seed: Of everything random.
        ema: Decay of a running average of the weights, which is then what is validated and saved.
        save_every: Steps between checkpoints, beside those after a validation; 0: none.
        keep: Checkpoints to keep.
        log_every: Steps between lines of metrics.
    """

    data: Data
    network: Network = field(default_factory=Network)
    views: Views = field(default_factory=Views)
    loss: Loss = field(default_factory=Loss)
    optimiser: Optimiser = field(default_factory=Optimiser)
    schedule: Schedule = field(default_factory=lambda: Schedule(kind="cosine", final=1e-5))
    validation: Validation = field(default_factory=Validation)
    compute: Compute = field(default_factory=Compute)
    task: Literal["patches"] = "patches"
    batch: int = 512
    epochs: int = 100
    steps: int | None = None
    seconds: float | None = None
    seed: int = 0
    ema: float | None = None
    save_every: int = 0
    keep: int = 2
    log_every: int = 50

    def __post_init__(self) -> None:
        if self.batch < 2:
            raise SolarError(f"batch must be 2 or more, not {self.batch}.")
        for name in ("epochs", "log_every", "keep"):
            if getattr(self, name) < 1:
                raise SolarError(f"{name} must be 1 or more, not {getattr(self, name)}.")

    def may_change(self) -> tuple[str, ...]:
        """Settings in which a resumed run may differ."""
        return ("seconds", "keep", "save_every", "compute.device", "compute.compile")
