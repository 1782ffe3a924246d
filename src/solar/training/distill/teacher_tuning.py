"""Fine-tune a teacher on labelled landmarks before distillation."""

import copy
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from math import isfinite

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solar.errors import SolarError
from solar.losses import info_nce
from solar.nn import l2_normalize
from solar.training.distill.loss import second_order_of_views
from solar.training.distill.recipe import Tuning
from solar.training.distill.teacher import Teacher
from solar.training.schedule import EMA, Schedule


def tune(
    teacher: Teacher,
    batches: Iterable[tuple[Tensor, Tensor | None]],
    settings: Tuning,
    precision: Callable[[], AbstractContextManager[None]],
) -> tuple[float, float]:
    """Train a teacher's backbone, in place; returns the contrast at the first and the last step.

    Args:
        teacher: Already whitened (`Teacher.whiten`); to be whitened again afterwards.
        batches: One a step: images (b, 3, h, w) in 0..1, the second half other views of the first,
            and what they show (b,).
        settings: How.
        precision: Opens what a network computes in.

    Raises:
        SolarError: The teacher has no weights that can learn, or they became infinite.
    """
    before, after = copy.deepcopy(teacher.backbone), teacher.backbone
    learning = list(after.parameters())
    if not learning:
        raise SolarError("The teacher has no weights that can learn: leave tune.steps at 0.")
    projection = copy.deepcopy(teacher.whitening)
    assert projection is not None
    every = [*learning, *projection.parameters()]
    for value in every:
        value.requires_grad_(True)
    held = nn.ParameterList(learning)
    ema = EMA(held, settings.ema)
    optimiser = torch.optim.AdamW(every, settings.lr)
    schedule = Schedule("cosine", warmup=settings.steps // 16)
    losses: list[Tensor] = []
    for step, (images, shown) in enumerate(batches):
        assert shown is not None  # there are two views of each photo
        schedule.apply(optimiser, step, steps=settings.steps)
        with precision():
            teacher.backbone = before
            former = teacher.look(images)
            teacher.backbone = after
            features = teacher.features(images)
        with torch.autocast(images.device.type, enabled=False):
            features = features.float()
            rows = l2_normalize(projection(teacher.head(features)))
            kin = shown[:, None] == shown
            alike = info_nce(rows, kin, temperature=settings.temperature)
            seen, remembered = (
                (x.float() - teacher.centre) * teacher.scale for x in (features, former)
            )
            forgotten = 1 - F.cosine_similarity(seen, remembered, dim=1)
            loss = settings.keep * forgotten.mean() + settings.alike * alike
            loss = loss + settings.second_order * second_order_of_views(rows, kin)
        optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimiser.step()
        ema.update(held)
        losses.append(alike.detach())
    with torch.no_grad():
        for value, average in zip(learning, ema.values.values(), strict=True):
            value.copy_(average)
    for value in every:
        value.requires_grad_(False)
    first, last = float(losses[0]), float(losses[-1])
    if not isfinite(last):
        raise SolarError("The teacher's weights became infinite: lower tune.lr.")
    return first, last
