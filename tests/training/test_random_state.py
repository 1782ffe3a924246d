import io
import random

import numpy as np
import torch

from solar.training.random_state import capture_random, restore_random, seed_everything


def drawn() -> list[float]:
    old = np.random.normal()  # noqa: NPY002
    return [random.gauss(0, 1), float(old), float(torch.rand(())), random.random()]


def test_every_generator_goes_on_where_it_was() -> None:
    seed_everything(3)
    drawn()
    buffer = io.BytesIO()
    torch.save(capture_random(), buffer)
    expected = drawn()
    seed_everything(4)
    buffer.seek(0)
    restore_random(torch.load(buffer, weights_only=True))
    assert drawn() == expected


def test_a_seed_repeats() -> None:
    seed_everything(5)
    first = drawn()
    seed_everything(5)
    assert drawn() == first
