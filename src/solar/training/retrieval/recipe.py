"""Settings for training a retrieval network; the defaults are the published ones."""

from dataclasses import dataclass, field
from typing import Literal

from solar.errors import SolarError
from solar.training.augment import Augmentation
from solar.training.objective import RetrievalLoss
from solar.training.shared_recipe import Compute, Data, Optimiser, PhotoValidation, Recipe


@dataclass(frozen=True)
class NetworkStart:
    """What is trained, and where its first weights come from.

    Files may be anything that `solar.load` takes: zoo names, .safetensors, published .pth.

    Attributes:
        start: A whole network to go on training; all else but `attention` is then ignored.
        backbone: resnet18 … resnet152, vgg16, alexnet; or a pretrained backbone of `transformers`:
            a folder with its config.json and model.safetensors, or `hf:org/name`.
        attention: Layers with second-order attention, such as "45". Blocks that the first
            weights do not have start as the identity.
        pooling: gem, mean, mac …; for a backbone with a class token also cls and cls+gem; for
            local features how, delf and delg, with `whitening: false`.
        whitening: Whether a linear layer follows the pooling.
        dim: Length of a descriptor; by default the backbone's channels.
        features: A network whose backbone is taken over; without it a backbone that is not
            pretrained starts at random.
        whitening_from: A whitening layer, or a network that has one; "features" takes the same
            network's; "learn" computes it from training pairs, of which it takes thousands, and
            "pca" from photos alone, with how from their local descriptors. Without it: at
            random.
        p: Where the pooling's exponent starts; null takes that of `features`.
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
        root: What names in a file are relative to.
        part: Of a file with a held-out part: train, val or all.
        missing: "drop" leaves out photos that a file names and that are not there.
        drop_unverified: Leave out photos that agree with no other of their landmark, where they
            were compared (`solar data build --verify`); else they are among the negatives.
    """

    root: str | None = None
    part: Literal["train", "val", "all"] = "train"
    missing: Literal["refuse", "drop"] = "refuse"
    drop_unverified: bool = False


@dataclass(frozen=True)
class Images:
    """How a photo becomes what the network sees.

    Attributes:
        size: Side of the square; for buckets, of the square of equal area.
        shape: "square" cuts a random square as large as the photo allows, as published;
            "buckets" keeps nearly all of it, in the nearest of `ratios`; "crop" cuts a random part
            of any size and squeezes it into a square, as classifiers are trained.
        ratios: Widths by heights.
        min_area: Of "crop": the smallest part, as a share of the photo's area.
        orient: Obey EXIF orientation; the published code does not.
        augment: Further changes; the published training has none.
        threads: That decode, ahead of their use; 0: by the machine.
    """

    size: int = 1024
    shape: Literal["square", "buckets", "crop"] = "square"
    ratios: tuple[float, ...] = (1.0, 4 / 3, 3 / 4, 16 / 9, 9 / 16)
    min_area: float = 0.2
    orient: bool = False
    augment: Augmentation | None = None
    threads: int = 0

    def __post_init__(self) -> None:
        if self.size < 32 or self.threads < 0 or min(self.ratios, default=0) <= 0:
            raise SolarError("Images need a size of 32 or more, positive ratios and threads >= 0.")
        if not 0 < self.min_area <= 1:
            raise SolarError(
                f"images.min_area must be above 0 and at most 1, not {self.min_area:g}."
            )


@dataclass(frozen=True)
class Mining:
    """Where negatives come from, anew in each epoch.

    Attributes:
        queries: Drawn for an epoch.
        pool: Photos among which negatives are looked for.
        negatives: For each query.
        style: hardest, semi-hard or random.
        min_distance: Photos nearer than this are no negatives.
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


@dataclass(frozen=True)
class RetrievalOptimiser(Optimiser):
    """How weights move, and which; the pooling's exponent never decays.

    Attributes:
        attention: Factor of the learning rate for attention blocks; 0 freezes a part.
        pooling: Factor for the exponent.
        whitening: Factor for the whitening layer.
        backbone: Factors for stages of the backbone that learn too: {layer4: 0.1}, {all: 1}. Those
            of a vision transformer are called embeddings, layer1, layer2 … and norm.
        layer_decay: From each stage of the backbone to the one before it, the learning rate is
            multiplied by this.
        batch_norm: "frozen" keeps all batch norms in evaluation mode, as published, those of
            the attention too; "trained" lets those of learning parts follow their batches.
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
        channels_last: Layout of feature maps; "auto" on a GPU.
        checkpoint: Compute activations again in the backward pass instead of keeping them.
        grad_cache_chunks: Send a batch through the network in this many chunks. The loss still is
            that of the whole batch: its gradient is found first, and carried back chunk by chunk.
        frozen_batch: Photos sent through the frozen part of the backbone at once.
    """

    fused: Literal["auto", "yes", "no"] = "auto"
    channels_last: Literal["auto", "yes", "no"] = "auto"
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
    """Chooses the best state by mAP; by default on the part that `data.source` holds out.

    Attributes:
        fraction: Where there is neither: hold out this part of the training landmarks.
        every: Epochs from one validation to the next.
    """

    every: int = 1
    fraction: float | None = None


@dataclass(frozen=True, kw_only=True)
class PhotoRecipe(Recipe):
    """What trainings on labelled photos share.

    Attributes:
        epochs: At most this many.
        stop_on_collapse: End the run when all descriptors become alike, instead of warning.
    """

    data: RetrievalData
    network: NetworkStart = field(default_factory=NetworkStart)
    images: Images = field(default_factory=Images)
    optimiser: RetrievalOptimiser = field(default_factory=RetrievalOptimiser)
    validation: RetrievalValidation = field(default_factory=RetrievalValidation)
    compute: RetrievalCompute = field(default_factory=RetrievalCompute)
    epochs: int = 100
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
        """As for every recipe; and epochs may be added where no rate depends on their number."""
        always = (*super().may_change(), "images.threads")
        return (*always, "epochs") if self.schedule.kind in ("exponential", "constant") else always


@dataclass(frozen=True, kw_only=True)
class RetrievalRecipe(PhotoRecipe):
    """Everything that decides what a training with mined tuples gives; a batch counts tuples.

    Published: 100 epochs; the paper: at most 50.
    """

    loss: RetrievalLoss = field(default_factory=RetrievalLoss)
    mining: Mining = field(default_factory=Mining)
    task: Literal["retrieval"] = "retrieval"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_positive("mining.queries", "mining.pool", "mining.negatives", "mining.batch")

    @property
    def mining_size(self) -> int:
        """Side of the squares that are described to find negatives."""
        return self.mining.size or self.images.size // 3
