"""Sources of patch pairs: photos, sequences with homographies, patch sets.

Only the seed and the step decide a batch, so that resumed runs and other networks get the same.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from solar.datasets.patches.photo_points import PhotoPoints
from solar.datasets.seeds import mixed
from solar.errors import SolarError
from solar.local.patch_cutting import GreyPhotos, cut, square_frames
from solar.training.patches.views import Views, change_light, coarseness, jitter, turns

SIDE = 32

Neighbours = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""For each photo m photos of the same scene, including itself, (photos, m), and the homographies
(photos, m, 3, 3) that map it to those, in pixels."""


class PointPatches:
    """Patches cut around keypoints of photos for every batch; an epoch has `batches` of them.

    A batch has `points` pairs, of `per_photo` keypoints per photo, as patches of the same photo are
    the hardest negatives. Photos with fewer keypoints are skipped. With `neighbours`, the second
    patch comes from one of those. A SolarError if there are too few photos for one batch.
    """

    def __init__(
        self,
        found: PhotoPoints,
        views: Views,
        *,
        points: int,
        per_photo: int,
        seed: int,
        device: str | torch.device = "cpu",
        neighbours: Neighbours | None = None,
    ) -> None:
        self.views, self.seed, self.points, self.per_photo = views, seed, points, per_photo
        self.photos = GreyPhotos.lay(found.photos).to(device)
        counts = np.array([len(p) for p in found.points])
        usable = np.flatnonzero(counts >= per_photo)
        self._at_once = -(-points // per_photo)
        if len(usable) < self._at_once:
            raise SolarError(
                f"A batch of {points} points needs {self._at_once} photos with {per_photo} "
                f"keypoints, but there are {len(usable)}: lower the batch, or give more photos."
            )
        self.batches = len(usable) // self._at_once
        device = self.photos.device
        self._usable = torch.from_numpy(usable).to(device)
        self._counts = torch.from_numpy(counts).to(device)
        self._starts = torch.from_numpy(np.cumsum(counts) - counts).to(device)
        table = torch.from_numpy(np.concatenate(found.points))
        frames = square_frames(table[:, :2], table[:, 2], table[:, 3])
        last = torch.tensor([0.0, 0.0, 1.0]).expand(len(frames), 1, 3)
        self._frames = torch.cat([frames, last], 1).to(device)
        self._most = int(counts.max())
        self._shuffled = (seed, -1), self._usable  # the photos in the order of an epoch
        self._neighbours: tuple[Tensor, Tensor] | None = None
        if neighbours is not None:
            others, maps = map(torch.from_numpy, neighbours)
            self._neighbours = others.to(device), maps.float().to(device)

    def batch(self, step: int) -> Tensor:
        """The pairs of a step: (2, points, 1, 32, 32) float32 from 0 to 255."""
        generator = torch.Generator(self.photos.device).manual_seed(mixed(self.seed, step))
        numbers, frames = self._draw(step, generator)
        n, views = len(numbers), self.views
        if views.turn:
            frames = frames @ turns(n, generator)
        there, carried = self._carry(numbers, frames, generator)
        first = frames @ jitter(n, views.first, generator)
        second = carried @ jitter(n, views.second, generator)
        coarser = coarseness(n, views, generator)
        patches = cut(
            self.photos,
            torch.cat([first, second]),
            torch.cat([numbers, there]),
            size=SIDE,
            coarser=torch.cat([torch.zeros_like(coarser), coarser]),
        )
        return change_light(patches.view(2, n, 1, SIDE, SIDE), views, generator)

    def _draw(self, step: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        epoch, place = divmod(step, self.batches)
        device = self.photos.device
        if self._shuffled[0] != (self.seed, epoch):
            order = torch.Generator(device).manual_seed(mixed(self.seed, epoch, 1))
            turn = torch.randperm(len(self._usable), generator=order, device=device)
            self._shuffled = (self.seed, epoch), self._usable[turn]
        start = place * self._at_once
        photos = self._shuffled[1][start : start + self._at_once]
        lots = torch.rand((len(photos), self._most), generator=generator, device=device)
        there = torch.arange(self._most, device=device) < self._counts[photos, None]
        chosen = torch.where(there, lots, -1.0).topk(self.per_photo, 1).indices
        points = (self._starts[photos, None] + chosen).flatten()[: self.points]
        numbers = photos.repeat_interleave(self.per_photo)[: self.points]
        return numbers, self._frames[points]

    def _carry(
        self, numbers: Tensor, frames: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Frames of the same points in another photo that contains them, or the same one."""
        if self._neighbours is None:
            return numbers, frames
        others, maps = (values[numbers] for values in self._neighbours)
        carried = maps @ frames[:, None]  # (n, m, 3, 3)
        itself = others == numbers[:, None]
        lots = torch.rand(others.shape, generator=generator, device=frames.device)
        # The photo itself only if no other contains the point.
        lots = torch.where(itself, lots - 1, lots)
        choice = torch.where(itself | self._inside(others, carried), lots, -2.0).argmax(1)
        rows = torch.arange(len(choice), device=choice.device)
        return others[rows, choice], carried[rows, choice]

    def _inside(self, photos: Tensor, frames: Tensor) -> Tensor:
        corners = torch.tensor([[-1.0, -1, 1, 1], [-1, 1, -1, 1], [1, 1, 1, 1]])
        places = frames @ corners.to(frames)
        x, y = (places[..., i, :] / places[..., 2, :] for i in (0, 1))
        width, height = (t[photos, 0][..., None] for t in (self.photos.widths, self.photos.heights))
        whole = (x >= 0) & (x < width) & (y >= 0) & (y < height) & (places[..., 2, :] > 0)
        return whole.all(-1)


class PatchSet:
    """Pairs of existing patches (n, 32, 32) whose labels (n,) are their points; as `PointPatches`.

    Points come in shuffled order; the patches of a point are all used once, in pairs, before any is
    repeated, as in the published training. Points with one patch are skipped. A batch has `points`
    pairs. `turn` rotates half of the pairs by quarter turns and mirrors half of them. A SolarError
    if there are too few points for one batch.
    """

    def __init__(
        self,
        patches: npt.NDArray[np.uint8],
        labels: npt.NDArray[np.int64],
        *,
        points: int,
        seed: int,
        device: str | torch.device = "cpu",
        turn: bool = True,
    ) -> None:
        self.points, self.seed, self.turn = points, seed, turn
        self.patches = torch.from_numpy(patches).to(device)
        order = np.argsort(labels, kind="stable")
        _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
        pairs = counts >= 2
        self._order, self._starts, self._counts = order, starts[pairs], counts[pairs]
        if len(self._starts) < points:
            raise SolarError(
                f"A batch of {points} points needs as many points with two patches each, but there "
                f"are {len(self._starts)}: lower the batch, or give more patches."
            )
        self.batches = max(1, len(labels) // (2 * points))
        self._a_pass = len(self._starts) // points
        self._shuffled = -1, np.empty(0, np.int64)  # the points in the order of a pass

    def batch(self, step: int) -> Tensor:
        """The pairs of a step: (2, points, 1, 32, 32)."""
        times, place = divmod(step, self._a_pass)
        if self._shuffled[0] != times:
            drawn = np.random.default_rng((self.seed, times)).permutation(len(self._starts))
            self._shuffled = times, drawn
        chosen = self._shuffled[1][place * self.points : (place + 1) * self.points]
        index = torch.from_numpy(self._order[np.stack(self._pairs(chosen, times))])
        device = self.patches.device
        if device.type == "cuda":  # without waiting for the GPU
            index = index.pin_memory().to(device, non_blocking=True)
        patches = self.patches[index].float()[:, :, None]
        if not self.turn:
            return patches
        generator = torch.Generator(device).manual_seed(mixed(self.seed, step, 2))
        return _turned(patches, generator)

    def _pairs(
        self, chosen: npt.NDArray[np.int64], times: int
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Two patches of each point in its turn `times`, from 0."""
        counts = self._counts[chosen]
        rounds, turn = np.divmod(times, counts // 2)
        # Random keys that are constant within a round: sorting them shuffles the patches.
        keys = (chosen.astype(np.uint64) << np.uint64(24)) + rounds.astype(np.uint64)
        slots = np.arange(counts.max(), dtype=np.uint64)
        lots = _scrambled(_scrambled(keys + np.uint64(self.seed))[:, None] + slots)
        lots[slots >= counts[:, None].astype(np.uint64)] = np.iinfo(np.uint64).max
        dealt = np.argsort(lots, axis=1, kind="stable")
        rows = np.arange(len(chosen))
        starts = self._starts[chosen]
        return starts + dealt[rows, 2 * turn], starts + dealt[rows, 2 * turn + 1]


def joined(
    parts: Sequence[tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Concatenate sets of patches and labels, with distinct labels."""
    labels, first = [], 0
    for _, points in parts:
        labels.append(points + first)
        first += int(points.max()) + 1
    return np.concatenate([patches for patches, _ in parts]), np.concatenate(labels)


def _turned(patches: Tensor, generator: torch.Generator) -> Tensor:
    """Rotate half of the pairs (2, n, 1, s, s) by quarter turns, and mirror half of them."""
    draws = torch.rand((3, patches.shape[1], 1, 1, 1), generator=generator, device=patches.device)
    quarters = torch.where(draws[0] < 0.5, 1 + (3 * draws[1]).floor(), 0.0)
    turned = patches
    for quarter in (1, 2, 3):
        turned = torch.where(quarters == quarter, patches.rot90(quarter, (3, 4)), turned)
    return torch.where(draws[2] < 0.5, turned.flip(3), turned)


def _scrambled(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Pseudorandom numbers from the given ones (splitmix64)."""
    with np.errstate(over="ignore"):
        values = values + np.uint64(0x9E3779B97F4A7C15)
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))
