"""Settings for training a network to tell labelled places apart, without pairs or mining."""

from dataclasses import dataclass, field
from typing import Literal

from solar.errors import SolarError
from solar.losses import MARGIN_LOSSES
from solar.training.objective import check_kind
from solar.training.retrieval.recipe import PhotoRecipe, RetrievalOptimiser


@dataclass(frozen=True)
class PlaceLoss:
    """What is minimised: the cross entropy of the places, and the second-order loss.

    Attributes:
        kind: One of `solar.losses.MARGIN_LOSSES`: arcface, cosface or curricular.
        margin: By default 0.2 (curricular: 0.15).
        scale: What cosines are multiplied with before the softmax; by default the root of the
            descriptor's length, as Token does it.
        start: Where the places' own weights start: at "random", as published, or at the "means" of
            their photos' descriptors, which is better where the network is already trained and
            takes a look at every photo.
        second_order: Weight of the second-order similarity loss, divided by the number of pairs.
            It needs `each`: 2 or more photos of a place in a batch; negatives are the nearest five
            in the batch.
    """

    kind: str = "arcface"
    margin: float | None = None
    scale: float | None = None
    start: Literal["random", "means"] = "random"
    second_order: float = 0.0

    def __post_init__(self) -> None:
        check_kind(self.kind, MARGIN_LOSSES)
        if (self.margin or 0) < 0 or (self.scale is not None and self.scale <= 0):
            raise SolarError("loss.margin must be 0 or more, and loss.scale above 0.")


@dataclass(frozen=True)
class PlaceOptimiser(RetrievalOptimiser):
    """How weights move, and which; biases, norms and the exponent do not decay.

    Attributes:
        classifier: Factor of the learning rate for the places' own weights, which are thrown away
            after training.
    """

    lr: float = 1e-3
    weight_decay: float = 1e-4
    pooling: float = 0.0
    classifier: float = 1.0


@dataclass(frozen=True, kw_only=True)
class PlaceRecipe(PhotoRecipe):
    """Everything that decides what a training over places gives; a batch counts photos.

    Attributes:
        each: Photos of one place that come together in a batch. With 1, an epoch is every photo
            once; with more, places with fewer photos show some of them again.
    """

    loss: PlaceLoss = field(default_factory=PlaceLoss)
    optimiser: PlaceOptimiser = field(default_factory=PlaceOptimiser)
    task: Literal["places"] = "places"
    each: int = 1
    batch: int = 128
    epochs: int = 30

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("each")
        if self.batch % self.each or self.batch < 2 * self.each:
            raise SolarError(
                f"A batch of {self.batch} photos cannot hold two places or more with "
                f"{self.each} photos each: choose a multiple, such as batch={16 * self.each}."
            )
        if self.loss.second_order and self.each < 2:
            raise SolarError("loss.second_order compares photos of one place: set each=2 or more.")
        if self.network.start is None and self.network.whitening_from == "learn":
            raise SolarError(
                "network.whitening_from=learn needs pairs, which training on places does not "
                "have: set it to pca, or name a file."
            )
