"""Sequences of photos whose homographies are known, drawn where there are no real ones."""

from pathlib import Path

import numpy as np
from PIL import Image

from solar.demo import toy


def draw_sequence(folder: Path, identity: int, size: tuple[int, int] = (320, 240)) -> None:
    """Write a toy landmark as six views through homographies: 1.png …, H_1_2 ….

    Args:
        folder: Of the sequence; made.
        identity: Which landmark.
        size: Width and height of the views.
    """
    folder.mkdir(parents=True)
    whole = toy.landmark(identity, 0, size=size).convert("L")
    for number in range(6):
        matrix = np.array([[1, 0.01 * number, 0], [-0.01 * number, 1, 3], [0, 0, 1]])
        back = np.linalg.inv(matrix)
        coefficients = tuple((back / back[2, 2]).ravel()[:8])
        Image.Image.transform(
            whole, whole.size, Image.Transform.PERSPECTIVE, coefficients, Image.Resampling.BILINEAR
        ).save(folder / f"{number + 1}.png")
        if number:
            first = np.array([[1, 0, 0], [0, 1, -3], [0, 0, 1]])
            lines = [" ".join(map(str, row)) for row in matrix @ first]
            (folder / f"H_1_{number + 1}").write_text("\n".join(lines))
