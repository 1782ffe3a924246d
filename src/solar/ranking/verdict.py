"""What a search says of a result in words: one rule for the web app, pages and the terminal."""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from solar.storage.types import Hit

Verdict: TypeAlias = Literal["same", "probable", "similar"]

WORDS: dict[Verdict, str] = {
    "same": "Same place",
    "probable": "Probably the same place",
    "similar": "Similar only",
}
SURE = 0.9
LIKELY = 0.5
"""Least probabilities of "Same place" and of "Probably the same place"."""


def verdict(hit: Hit) -> Verdict:
    """Judge a result.

    Matching details confirm the same place; without them, or where a probability doubts them, it is
    at most probable.
    """
    if hit.same_scene and (hit.probability is None or hit.probability >= SURE):
        return "same"
    return "probable" if (hit.probability or 0.0) >= LIKELY else "similar"


def judged(hits: Iterable[Hit]) -> bool:
    """Whether more than similarities is known of some results, so that verdicts mean anything."""
    return any(hit.probability is not None or hit.inliers is not None for hit in hits)
