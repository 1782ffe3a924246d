"""A toy photo and what a turned camera would see of it: the homography between them is known."""

import cv2
import numpy as np

from solar.demo import toy


def toy_photo(identity: int = 0, size: tuple[int, int] = (480, 360)) -> np.ndarray:
    return np.array(toy.landmark(identity, 0, size=size))


def turned(photo: np.ndarray, scale: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
    """The photo seen from the side, and the homography (3, 3) that takes it there."""
    height, width = photo.shape[:2]
    matrix = np.array([[0.92, -0.16, 50], [0.12, 0.95, -12], [1.5e-4, 6e-5, 1]])
    matrix = np.diag([scale, scale, 1]) @ matrix
    return cv2.warpPerspective(photo, matrix, (round(width * scale), round(height * scale))), matrix


def corner_error(found: np.ndarray, truth: np.ndarray, shape: tuple[int, int]) -> float:
    """How far the corners of a photo (h, w) land from where they should, in pixels."""
    height, width = shape
    corners = np.float32([[[0, 0]], [[width, 0]], [[width, height]], [[0, height]]])
    apart = cv2.perspectiveTransform(corners, found) - cv2.perspectiveTransform(corners, truth)
    return float(np.linalg.norm(apart, axis=2).max())
