"""Settings for training a network that finds photos; the defaults are the published ones."""

from dataclasses import dataclass, field
from typing import Literal

from solar.errors import SolarError
from solar.training.augment import Augmentation
from solar.training.schedule import Schedule


@dataclass(frozen=True)
class Network:
    """What is trained, and where its first weights come from.

    Files may be anything that `solar.load` takes: zoo names, .safetensors, published .pth.

    Attributes:
        start: A whole network to go on training; all else but `attention` is then ignored.
        backbone: resnet18 … resnet152, vgg16, alexnet.
        attention: Layers with second-order attention, such as "45". Blocks that the first
            weights do not have start as the identity.
        pooling: gem, mac, spoc …
        whitening: Whether a linear layer follows the pooling.
        dim: Length of a descriptor; by default the trunk's channels.
        features: A network whose trunk is taken over; without it the trunk starts at random.
        whitening_from: A whitening layer, or a network that has one; "features" takes the same
            network's; "learn" computes it from training pairs, of which it takes thousands, and
            "pca" from photos alone. Without it: at random.
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
class Data:
    """Photos to train on, as `solar.datasets.training.read_training_set` takes them.

    Attributes:
        source: A folder, tar shards, or one .csv, .json or published .pkl.
        root: What names in a file are relative to.
        part: Of a file with a held-out part: train, val or all.
        missing: "drop" leaves out photos that a file names and that are not there.
        drop_unverified: Leave out photos that agree with no other of their landmark, where they
            were compared (`solar data build --verify`); else they are among the negatives.
    """

    source: tuple[str, ...]
    root: str | None = None
    part: Literal["train", "val", "all"] = "train"
    missing: Literal["refuse", "drop"] = "refuse"
    drop_unverified: bool = False

    def __post_init__(self) -> None:
        if not self.source:
            raise SolarError("data.source names no photos.")


@dataclass(frozen=True)
class Images:
    """How a photo becomes what the network sees.

    Attributes:
        size: Side of the square; for buckets, of the square of equal area.
        shape: "square" cuts a random square as large as the photo allows, as published;
            "buckets" keeps nearly all of it, in the nearest of `ratios`.
        ratios: Widths by heights.
        orient: Obey EXIF orientation; the published code does not.
        augment: Further changes; the published training has none.
        threads: That decode, ahead of their use; 0: by the machine.
    """

    size: int = 1024
    shape: Literal["square", "buckets"] = "square"
    ratios: tuple[float, ...] = (1.0, 4 / 3, 3 / 4, 16 / 9, 9 / 16)
    orient: bool = False
    augment: Augmentation | None = None
    threads: int = 0

    def __post_init__(self) -> None:
        if self.size < 32 or self.threads < 0 or min(self.ratios, default=0) <= 0:
            raise SolarError("Images need a size of 32 or more, positive ratios and threads >= 0.")


@dataclass(frozen=True)
class Loss:
    """What is minimised: a first-order loss and the second-order one.

    Attributes:
        kind: triplet, contrastive or average_precision.
        margin: By default 1.25 for triplets and 0.7 for contrastive pairs.
        second_order: Weight of the second-order similarity loss, the paper's lambda.
        reduction: "paper" divides by triplets, "per_query" by queries as the published code does,
            "sum" (contrastive only) by nothing.
        bins: Of the average precision's histogram.
    """

    kind: Literal["triplet", "contrastive", "average_precision"] = "triplet"
    margin: float | None = None
    second_order: float = 0.0
    reduction: Literal["paper", "per_query", "sum"] = "per_query"
    bins: int = 20

    @property
    def distance(self) -> float:
        """The margin in force."""
        default = 0.7 if self.kind == "contrastive" else 1.25
        return default if self.margin is None else self.margin


@dataclass(frozen=True)
class Mining:
    """Where negatives come from, anew in each epoch.

    Attributes:
        queries: Drawn for an epoch.
        pool: Photos among which negatives are looked for.
        negatives: For each query.
        style: hardest, semi-hard or random.
        floor: Photos nearer than this distance are no negatives.
        size: Side of the squares described; by default a third of the images' size.
        batch: Photos described at once.
    """

    queries: int = 2000
    pool: int = 20_000
    negatives: int = 5
    style: Literal["hardest", "semi-hard", "random"] = "hardest"
    floor: float = 0.0
    size: int | None = None
    batch: int = 50


@dataclass(frozen=True)
class Optimiser:
    """How weights move, and which.

    Attributes:
        kind: adam (its weight decay is L2, as published), adamw or sgd (momentum 0.9).
        rate: The learning rate that the factors below multiply.
        decay: Weight decay, of all but the pooling's exponent.
        attention: Factor for attention blocks; 0 freezes a part.
        pooling: Factor for the exponent.
        whitening: Factor for the whitening layer.
        trunk: Factors for stages of the trunk that learn too: {layer4: 0.1}, {all: 1}.
        batch_norm: "frozen" keeps all batch norms in evaluation mode, as published, those of
            the attention too; "trained" lets those of learning parts follow their batches.
        clip: Longest gradient.
    """

    kind: Literal["adam", "adamw", "sgd"] = "adam"
    rate: float = 1e-6
    decay: float = 1e-6
    attention: float = 1.0
    pooling: float = 100.0
    whitening: float = 1.0
    trunk: dict[str, float] = field(default_factory=dict)
    batch_norm: Literal["frozen", "trained"] = "frozen"
    clip: float | None = None


@dataclass(frozen=True)
class Compute:
    """How to compute; the result stays the same up to rounding.

    Attributes:
        device: cpu or cuda; found out if not given.
        precision: "auto" is bf16 on a GPU and float32 elsewhere; published: float32.
        fused: Fold frozen batch norms into their convolutions; "auto" with bf16.
        channels_last: Layout of feature maps; "auto" on a GPU.
        checkpoint: Compute activations again in the backward pass instead of keeping them.
        pieces: Send a batch through the network in this many pieces. The loss still is that of
            the whole batch: its gradient is found first, and carried back piece by piece.
        frozen_batch: Photos sent through the frozen part of the trunk at once.
    """

    device: Literal["cpu", "cuda"] | None = None
    precision: Literal["auto", "float32", "bf16"] = "auto"
    fused: Literal["auto", "yes", "no"] = "auto"
    channels_last: Literal["auto", "yes", "no"] = "auto"
    checkpoint: bool = False
    pieces: int = 1
    frozen_batch: int = 8


@dataclass(frozen=True)
class Validation:
    """Chooses the best state by mAP.

    Attributes:
        source: Labelled photos: a folder, a tar, a CSV; or a .json or published .pkl with a
            held-out part, which is then used. By default the part that `data.source` holds out.
        fraction: Where there is neither: hold out this part of the training landmarks.
        every: Epochs from one validation to the next.
        size: Longest side of a photo.
        scales: Scales to average.
    """

    source: str | None = None
    fraction: float | None = None
    every: int = 1
    size: int = 512
    scales: tuple[float, ...] = (1.0,)


@dataclass(frozen=True)
class RetrievalRecipe:
    """Everything that decides what a training run gives.

    Attributes:
        network: What is trained.
        data: On which photos.
        images: How they are cut.
        loss: What is minimised.
        mining: Where negatives come from.
        optimiser: Which weights move, and how.
        schedule: How the learning rate falls.
        validation: How the best state is chosen.
        compute: How to compute.
        task: Always "retrieval".
        batch: Tuples a step, over all processes.
        epochs: At most this many (published: 100; the paper: at most 50).
        steps: Stop earlier, after this many steps.
        seed: Of everything random.
        ema: Decay of a running average of the weights, which is then what is validated and saved.
        save_every: Steps between checkpoints, beside those at the end of an epoch; 0: none.
        keep: Checkpoints to keep beside the best.
        log_every: Steps between lines of metrics.
        stop_on_collapse: End the run when all descriptors become alike, instead of warning.
    """

    data: Data
    network: Network = field(default_factory=Network)
    images: Images = field(default_factory=Images)
    loss: Loss = field(default_factory=Loss)
    mining: Mining = field(default_factory=Mining)
    optimiser: Optimiser = field(default_factory=Optimiser)
    schedule: Schedule = field(default_factory=Schedule)
    validation: Validation = field(default_factory=Validation)
    compute: Compute = field(default_factory=Compute)
    task: Literal["retrieval"] = "retrieval"
    batch: int = 8
    epochs: int = 100
    steps: int | None = None
    seed: int = 0
    ema: float | None = None
    save_every: int = 0
    keep: int = 2
    log_every: int = 1
    stop_on_collapse: bool = False

    def __post_init__(self) -> None:
        positive = {
            "batch": self.batch,
            "epochs": self.epochs,
            "log_every": self.log_every,
            "keep": self.keep,
            "steps": 1 if self.steps is None else self.steps,
            "mining.queries": self.mining.queries,
            "mining.pool": self.mining.pool,
            "mining.negatives": self.mining.negatives,
            "mining.batch": self.mining.batch,
            "compute.pieces": self.compute.pieces,
            "compute.frozen_batch": self.compute.frozen_batch,
            "validation.every": self.validation.every,
        }
        for name, value in positive.items():
            if value < 1:
                raise SolarError(f"{name} must be 1 or more, not {value}.")
        if self.ema is not None and not 0 < self.ema < 1:
            raise SolarError(f"ema must be above 0 and below 1, not {self.ema:g}.")
        if self.loss.reduction == "sum" and self.loss.kind != "contrastive":
            raise SolarError("loss.reduction sum is for the contrastive loss only.")
        twice = self.compute.pieces > 1 or self.compute.checkpoint
        if twice and self.optimiser.batch_norm == "trained":
            raise SolarError(
                "compute.pieces and compute.checkpoint run photos twice, which batch norms that "
                "are trained would count twice: set optimiser.batch_norm=frozen."
            )

    @property
    def mining_size(self) -> int:
        """Side of the squares that are described to find negatives."""
        return self.mining.size or self.images.size // 3

    def may_change(self) -> tuple[str, ...]:
        """Settings in which a resumed run may differ: none of them changes what comes out."""
        always = ("images.threads", "keep", "save_every", "compute.device")
        return (*always, "epochs") if self.schedule.kind in ("exponential", "constant") else always
