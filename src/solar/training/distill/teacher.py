"""Teachers: loading, whitening and fine-tuning of the networks to imitate.

A TorchScript or `torch.export` file is a program that torch runs: load only trusted ones.
"""

import copy
import warnings
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from math import isfinite
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.errors import SolarError
from solar.losses import info_nce, second_order_of_views
from solar.models import retrieval_model
from solar.models.retrieval_config import IMAGENET_MEAN, IMAGENET_STD
from solar.nn import GeM, l2_normalize, pca_whitening
from solar.training.distill.recipe import Tuning
from solar.training.loop import EMA
from solar.training.schedule import Schedule

# Of fine-tuning: weights of the contrast and of the second-order similarity loss, and the decay of
# the running average of the weights, which are those that teach.
_ALIKE, _SECOND_ORDER, _EMA = 0.3, 10.0, 0.99


class Teacher(nn.Module):
    """A frozen network, or several: a feature map and a descriptor per photo.

    The backbone computes a feature map (b, channels, h', w') from normalised images (b, 3, h, w),
    and the head, already on its device, descriptors (b, dim). Those of `others` are appended.

    Attributes:
        whitening: Of the descriptors, made by `whiten`.
        whitened: The head has a whitening of its own.
        share: Of this teacher in the similarities of descriptors, beside `others`.
    """

    whitening: nn.Linear | None
    whitened = False
    share = 1.0

    def __init__(
        self,
        backbone: nn.Module,
        head: Callable[[Tensor], Tensor],
        mean: Sequence[float],
        std: Sequence[float],
    ) -> None:
        super().__init__()
        self.backbone, self.head = backbone, head
        self.mean = nn.Buffer(torch.tensor(mean).view(3, 1, 1))
        self.std = nn.Buffer(torch.tensor(std).view(3, 1, 1))
        self.others = nn.ModuleList()
        self.centre, self.scale = nn.Buffer(torch.zeros(1, 1, 1)), nn.Buffer(torch.ones(1, 1, 1))
        self.whitening = None
        self.requires_grad_(False)
        self.channels = self.dim = 0

    def train(self, mode: bool = True) -> "Teacher":
        """Do nothing: a teacher stays frozen, and an exported program has no modes."""
        return self

    @torch.no_grad()
    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Photos (b, 3, h, w) in 0..1 to (b, channels, h', w') and unit rows (b, dim)."""
        features = self.features(images)
        with torch.autocast(images.device.type, enabled=False):
            features = features.float()
            descriptors = self.head(features)
            if self.whitening is not None:
                descriptors = l2_normalize(self.whitening(descriptors))
            features = (features - self.centre) * self.scale
        rows = [self.share**0.5 * descriptors]
        rows += [other.share**0.5 * other(images)[1] for other in self._others]
        return features, l2_normalize(torch.cat(rows, dim=1))

    @property
    def _others(self) -> list["Teacher"]:
        return [cast(Teacher, other) for other in self.others]

    @torch.no_grad()
    def whiten(self, photos: Iterable[Tensor], power: float) -> None:
        """Normalise maps and descriptors by batches of photos (b, 3, h, w) in 0..1.

        From every channel of the map its mean is subtracted, and it is divided by its deviation to
        the `power`; the descriptor is whitened with the same power (`solar.nn.pca_whitening`).
        So are descriptors of other teachers without a whitening of their own.
        """
        sums = squares = torch.zeros(self.channels, dtype=torch.float64, device=self.mean.device)
        count = 0
        descriptors = []
        others = [other for other in self._others if not other.whitened]
        found: list[list[Tensor]] = [[] for _ in others]
        for images in photos:
            features = self.features(images).double()
            descriptors.append(self.head(features.float()))
            for rows, other in zip(found, others, strict=True):
                rows.append(other.head(other.features(images).float()))
            sums = sums + features.sum(dim=(0, 2, 3))
            squares = squares + features.square().sum(dim=(0, 2, 3))
            count += len(features) * features[0, 0].numel()
        mean = sums / count
        variance = squares / count - mean.square()
        # Do not amplify channels that happen to be constant in these photos.
        variance = variance.clamp(min=1e-4 * float(variance.mean()))
        self.centre = nn.Buffer(mean.float()[:, None, None])
        self.scale = nn.Buffer(variance.pow(-power / 2).float()[:, None, None])
        for teacher, rows in zip((self, *others), (descriptors, *found), strict=True):
            whitening = pca_whitening(torch.cat(rows), power).linear()
            teacher.whitening = whitening.to(self.centre.device).requires_grad_(False)

    def features(self, images: Tensor) -> Tensor:
        """The feature map alone, with gradients."""
        # Otherwise TorchScript spends seconds on optimising for each new image size.
        with torch.jit.optimized_execution(False):  # type: ignore[attr-defined]
            features: Tensor = self.backbone((images - self.mean) / self.std)
        return features


def load_teachers(
    sources: Sequence[str],
    *,
    device: str | torch.device = "cpu",
    sizes: Sequence[int] = (224,),
    shares: Sequence[float] = (),
) -> Teacher:
    """Load teachers as one: the map of the first, and all descriptors concatenated."""
    first, *others = (load_teacher(source, device=device, sizes=sizes) for source in sources)
    for teacher, share in zip((first, *others), shares, strict=False):
        teacher.share = share
    first.others.extend(others)
    first.dim += sum(other.dim for other in others)
    return first


def load_teacher(
    source: str | Path, *, device: str | torch.device = "cpu", sizes: Sequence[int] = (224,)
) -> Teacher:
    """Load a teacher and run it on squares of these sides; a SolarError if it fails at one.

    The source is a retrieval network as for `solar.load`; or a TorchScript or `torch.export` (.pt2)
    file, a program that computes a feature map from images normalised as for ImageNet. Its
    descriptor is pooled by GeM with p = 3.
    """
    path = Path(source)
    if path.suffix == ".pt2" or _is_torchscript(path):
        program = _read_program(path, torch.device(device))
        pool = GeM(p=3.0).to(device).requires_grad_(False)
        teacher = Teacher(program, lambda x: l2_normalize(pool(x)), IMAGENET_MEAN, IMAGENET_STD)
    else:
        network = retrieval_model(source, device=device).requires_grad_(False)
        config = network.config
        teacher = Teacher(network.backbone, network.head, config.mean, config.std)
        teacher.whitened = config.whitening
    teacher.to(device)
    for size in sizes:
        features = _tried(teacher, source, size, torch.device(device))
        teacher.channels, teacher.dim = features.shape[1], teacher.head(features).shape[1]
    return teacher


def _is_torchscript(path: Path) -> bool:
    if not (path.is_file() and zipfile.is_zipfile(path)):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def _read_program(path: Path, device: torch.device) -> nn.Module:
    program: Any
    try:
        if path.suffix == ".pt2":
            program = torch.export.load(path).module()
        else:
            with warnings.catch_warnings():  # about newer formats
                warnings.simplefilter("ignore", DeprecationWarning)
                program = torch.jit.load(path, map_location=device).eval()  # type: ignore[no-untyped-call]
    except Exception as error:  # a damaged file can make torch fail in any way
        reason = str(error).strip().split("\n")[0]
        raise SolarError(f"{path} is not a program that torch can read ({reason}).") from error
    assert isinstance(program, nn.Module)
    return program


def _tried(teacher: Teacher, source: str | Path, size: int, device: torch.device) -> Tensor:
    try:
        with torch.no_grad():
            features = teacher.features(torch.rand(2, 3, size, size, device=device))
    except Exception as error:  # a program may raise anything
        reason = str(error).strip().split("\n")[0]
        raise SolarError(
            f"The teacher {source} does not take two images of {size} × {size} ({reason}): "
            "export it with batch, height and width left open, or train at its size."
        ) from error
    if features.dim() != 4 or len(features) != 2:
        raise SolarError(
            f"The teacher {source} gives {tuple(features.shape)} for two images, "
            "not a feature map (2, channels, height, width)."
        )
    return features


def tune(
    teacher: Teacher,
    batches: Iterable[tuple[Tensor, Tensor | None]],
    settings: Tuning,
    precision: Callable[[], AbstractContextManager[None]],
) -> tuple[float, float]:
    """Fine-tune a teacher's backbone on landmarks; returns the first and the last contrast.

    A SolarError if the teacher has no weights to train, or they became infinite.

    Args:
        teacher: Already whitened (`Teacher.whiten`); whiten it again afterwards.
        batches: One per step: images (b, 3, h, w) in 0..1, the second half other views of the
            first, and their labels (b,).
        settings: How to train.
        precision: Context in which the network computes.
    """
    before, after = copy.deepcopy(teacher.backbone), teacher.backbone
    learning = list(after.parameters())
    if not learning:
        raise SolarError("The teacher has no weights that can learn: leave tune.steps at 0.")
    projection = copy.deepcopy(teacher.whitening)
    assert projection is not None
    backbone = nn.ParameterList(learning)
    both = [*learning, *projection.parameters()]
    for value in both:
        value.requires_grad_(True)
    ema = EMA(backbone, _EMA)
    optimiser = torch.optim.AdamW(both, settings.lr)
    schedule = Schedule("cosine", warmup=settings.steps // 16)
    losses: list[Tensor] = []
    for step, (images, shown) in enumerate(batches):
        assert shown is not None  # there are two views of each photo
        schedule.apply(optimiser, step, steps=settings.steps)
        with precision():
            teacher.backbone = before
            with torch.no_grad():
                former = teacher.features(images)
            teacher.backbone = after
            features = teacher.features(images)
        with torch.autocast(images.device.type, enabled=False):
            features = features.float()
            rows = l2_normalize(projection(teacher.head(features)))
            kin = shown[:, None] == shown
            alike = info_nce(rows, kin)
            seen, remembered = (
                (x.float() - teacher.centre) * teacher.scale for x in (features, former)
            )
            forgotten = 1 - F.cosine_similarity(seen, remembered, dim=1)
            loss = settings.keep * forgotten.mean() + _ALIKE * alike
            loss = loss + _SECOND_ORDER * second_order_of_views(rows, kin)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimiser.step()
        ema.update(backbone)
        losses.append(alike.detach())
    with torch.no_grad():
        for value, average in zip(learning, ema.values.values(), strict=True):
            value.copy_(average)
    for value in both:
        value.requires_grad_(False)
    first, last = float(losses[0]), float(losses[-1])
    if not isfinite(last):
        raise SolarError("The teacher's weights became infinite: lower tune.lr.")
    return first, last
