"""Settings for training on photos, with tuples or classes; the defaults are the published ones."""

from dataclasses import dataclass, field
from typing import Literal

from solar.errors import SolarError
from solar.losses import MARGIN_LOSSES
from solar.training.augment import Augmentation
from solar.training.objective import RetrievalLoss, check_kind
from solar.training.recipe import check_range
from solar.training.shared_recipe import Compute, Data, Optimiser, PhotoValidation, Recipe


@dataclass(frozen=True)
class NetworkStart:
    """The network and its initial weights.

    Files may be anything that `solar.load` takes: zoo names, .safetensors, published .pth.

    Attributes:
        start: A whole network to fine-tune; all else but `attention` is then ignored.
        backbone: resnet18 … resnet152, vgg16, alexnet; or a pretrained backbone of `transformers`:
            a folder with its config.json and model.safetensors, or `hf:org/name`.
        attention: Layers with second-order attention, such as "45". Blocks without initial
            weights start as the identity.
        pooling: gem, mean, mac …; for a backbone with a class token also cls and cls+gem; for
            local features how, delf and delg, with `whitening: false`.
        whitening: Whether a linear layer follows the pooling.
        dim: Length of an embedding. Default: the backbone's channels.
        features: A network whose backbone is copied; without it a backbone that is not pretrained
            starts at random.
        whitening_from: A whitening layer, or a network with one; "features" takes that of
            `features`; "learn" computes it from thousands of training pairs, "pca" from photos
            alone, with how from their local descriptors. Default: random.
        p: Initial exponent of the pooling; null takes that of `features`.
    """

    start: str | None = None
    backbone: str = "resnet101"
    attention: str = ""
    pooling: str = "gem"
    whitening: bool = True
    dim: int | None = None
    features: str | None = None
    whitening_from: str | None = None
    p: float | None = 3.0


@dataclass(frozen=True)
class RetrievalData(Data):
    """Photos to train on, as `solar.datasets.labelled.sources.read_training_set` takes them.

    Attributes:
        source: A folder, tar shards, or one .csv, .json or published .pkl.
        root: The folder that names in a file are relative to.
        part: Of a file with a held-out part: train, val or all.
        missing: "drop" leaves out photos of a file that do not exist.
        drop_unverified: Leave out photos that match no other of their landmark, if they were
            compared (`solar data build --verify`); otherwise they serve as negatives.
    """

    root: str | None = None
    part: Literal["train", "val", "all"] = "train"
    missing: Literal["refuse", "drop"] = "refuse"
    drop_unverified: bool = False


@dataclass(frozen=True)
class Images:
    """How a photo becomes an input of the network.

    Attributes:
        size: Side of the square; for buckets, of the square of equal area.
        shape: "square" cuts the largest square at a random place, as published; "buckets" keeps
            nearly the whole photo, in the nearest of `ratios`; "crop" squeezes a random part of
            any size into a square, as classifiers are trained.
        ratios: Widths by heights.
        min_area: Of "crop": the smallest part, as a share of the photo's area.
        orient: Obey EXIF orientation; the published code does not.
        augment: Further changes; the published training has none.
        threads: Decoding threads; 0: chosen automatically.
    """

    size: int = 1024
    shape: Literal["square", "buckets", "crop"] = "square"
    ratios: tuple[float, ...] = (1.0, 4 / 3, 3 / 4, 16 / 9, 9 / 16)
    min_area: float = 0.2
    orient: bool = False
    augment: Augmentation | None = None
    threads: int = 0

    def __post_init__(self) -> None:
        check_range("images.size", self.size, 32)
        check_range("images.threads", self.threads, 0)
        if min(self.ratios, default=0) <= 0:
            raise SolarError("images.ratios must be positive.")
        if not 0 < self.min_area <= 1:
            raise SolarError(f"images.min_area must be above 0, up to 1, not {self.min_area:g}.")


@dataclass(frozen=True)
class Mining:
    """Mining of negatives in each epoch.

    Attributes:
        queries: Per epoch.
        pool: Photos to choose negatives from.
        negatives: Per query.
        style: hardest, semi-hard or random.
        min_distance: Photos nearer than this Euclidean distance are no negatives.
        size: Side of the squares described; by default a third of the images' size.
        batch: Photos described at once.
    """

    queries: int = 2000
    pool: int = 20_000
    negatives: int = 5
    style: Literal["hardest", "semi-hard", "random"] = "hardest"
    min_distance: float = 0.0
    size: int | None = None
    batch: int = 50

    def __post_init__(self) -> None:
        if not 0 <= self.min_distance < 2:
            raise SolarError(
                f"mining.min_distance must be from 0 to less than 2, not {self.min_distance:g}."
            )


@dataclass(frozen=True)
class RetrievalOptimiser(Optimiser):
    """The optimiser and which parts learn; the pooling's exponent never decays.

    Attributes:
        attention: Factor of the learning rate for attention blocks; 0 freezes a part.
        pooling: Factor for the exponent.
        whitening: Factor for the whitening layer.
        backbone: Factors for stages of the backbone, which are otherwise frozen: {layer4: 0.1},
            {all: 1}. A vision transformer has embeddings, layer1, layer2 … and norm.
        layer_decay: Factor from each stage of the backbone to the one before it.
        batch_norm: "frozen" keeps all batch norms in evaluation mode, as published, including
            those of the attention; "trained" trains those of learning parts.
    """

    lr: float = 1e-6
    weight_decay: float = 1e-6
    attention: float = 1.0
    pooling: float = 100.0
    whitening: float = 1.0
    backbone: dict[str, float] = field(default_factory=dict)
    layer_decay: float = 1.0
    batch_norm: Literal["frozen", "trained"] = "frozen"


@dataclass(frozen=True)
class RetrievalCompute(Compute):
    """How to compute; the published precision is float32.

    Attributes:
        fused: Fold frozen batch norms into their convolutions; "auto" with bf16.
        checkpoint: Recompute activations in the backward pass instead of keeping them.
        grad_cache_chunks: Send a batch through the network in this many chunks. The loss remains
            that of the whole batch: its gradient is computed first, then propagated by chunk.
        frozen_batch: Photos per pass through the frozen part of the backbone.
    """

    fused: Literal["auto", "yes", "no"] = "auto"
    checkpoint: bool = False
    grad_cache_chunks: int = 1
    frozen_batch: int = 8

    def __post_init__(self) -> None:
        if self.precision == "tf32" or self.compile:
            raise SolarError(
                "compute.precision=tf32 and compute.compile are for patches and distillation."
            )


@dataclass(frozen=True)
class RetrievalValidation(PhotoValidation):
    """Chooses the best state by mAP; by default on the held-out part of `data.source`.

    Attributes:
        fraction: Without source and held-out part: hold out this share of the landmarks.
        every: Epochs between validations.
    """

    every: int = 1
    fraction: float | None = None


@dataclass(frozen=True, kw_only=True)
class PhotoRecipe(Recipe):
    """Common settings of training on labelled photos.

    Attributes:
        epochs: At most this many.
        keep_epochs: Also keep the network of every so many epochs, as epoch-0010.safetensors; 0:
            only the best and the last.
        stop_on_collapse: End the run when embeddings collapse, instead of warning.
    """

    data: RetrievalData
    network: NetworkStart = field(default_factory=NetworkStart)
    images: Images = field(default_factory=Images)
    optimiser: RetrievalOptimiser = field(default_factory=RetrievalOptimiser)
    validation: RetrievalValidation = field(default_factory=RetrievalValidation)
    compute: RetrievalCompute = field(default_factory=RetrievalCompute)
    epochs: int = 100
    keep_epochs: int = 0
    log_every: int = 1
    stop_on_collapse: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("epochs", "validation.every", "compute.frozen_batch")
        self.check_positive("compute.grad_cache_chunks")
        twice = self.compute.grad_cache_chunks > 1 or self.compute.checkpoint
        if twice and self.optimiser.batch_norm == "trained":
            raise SolarError(
                "compute.grad_cache_chunks and compute.checkpoint run every photo twice, so "
                "trained batch norms would count it twice: set optimiser.batch_norm=frozen."
            )

    def may_change(self) -> tuple[str, ...]:
        """Epochs too, if the learning rate does not depend on their number."""
        always = (*super().may_change(), "images.threads", "keep_epochs")
        return (*always, "epochs") if self.schedule.kind in ("exponential", "constant") else always


@dataclass(frozen=True, kw_only=True)
class RetrievalRecipe(PhotoRecipe):
    """Settings for training with mined tuples; a batch counts tuples.

    The published run has 100 epochs, the paper's at most 50.
    """

    loss: RetrievalLoss = field(default_factory=RetrievalLoss)
    mining: Mining = field(default_factory=Mining)
    task: Literal["retrieval"] = "retrieval"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("mining.queries", "mining.pool", "mining.negatives", "mining.batch")

    @property
    def mining_size(self) -> int:
        """Side of the squares described to find negatives."""
        return self.mining.size or self.images.size // 3


@dataclass(frozen=True)
class PlaceLoss:
    """Cross entropy of the places, and the second-order loss.

    Attributes:
        kind: One of `solar.losses.MARGIN_LOSSES`: arcface, cosface or curricular.
        margin: By default 0.2 (curricular: 0.15).
        scale: Factor of the cosines before the softmax; by default the root of the embedding's
            length, as in Token.
        start: Initial weights of the places: "random", as published, or the "means" of their
            photos' embeddings, which is better for a trained network but describes every photo.
        second_order: Weight of the second-order similarity loss, divided by the number of pairs.
            It needs `each` of 2 or more; negatives are the nearest five in the batch.
    """

    kind: str = "arcface"
    margin: float | None = None
    scale: float | None = None
    start: Literal["random", "means"] = "random"
    second_order: float = 0.0

    def __post_init__(self) -> None:
        check_kind(self.kind, MARGIN_LOSSES)
        check_range("loss.margin", self.margin, 0)
        if self.scale is not None and self.scale <= 0:
            raise SolarError(f"loss.scale must be above 0, not {self.scale:g}.")


@dataclass(frozen=True)
class PlaceOptimiser(RetrievalOptimiser):
    """The optimiser and which parts learn; biases, norms and the exponent do not decay.

    Attributes:
        classifier: Factor for the weights of the places, which are discarded after training.
    """

    lr: float = 1e-3
    weight_decay: float = 1e-4
    pooling: float = 0.0
    classifier: float = 1.0


@dataclass(frozen=True, kw_only=True)
class PlaceRecipe(PhotoRecipe):
    """Settings for training to classify places; a batch counts photos.

    Attributes:
        each: Photos of one place per group in a batch. With 1, an epoch is every photo once; with
            more, places with fewer photos repeat some.
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
