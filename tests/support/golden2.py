"""The second set of golden numbers: of published code other than the paper's own."""

from pathlib import Path

import numpy as np
from support.drawn import draw
from torch import Tensor

FOLDER = Path(__file__).parents[1] / "golden"


def golden2(topic: str) -> dict[str, np.ndarray]:
    """The arrays of one topic: `token` gives those of tests/golden/token.npz, `token_*`."""
    with np.load(FOLDER / f"{topic}.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def drawn(key: str, shape: tuple[int, ...]) -> Tensor:
    """The weight with this published name and shape, as the golden numbers were made with it."""
    return draw(key, shape, tag="public-2")
