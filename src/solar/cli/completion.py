"""Shell completion for names of models and recipes, without importing torch."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

OPENCV = ("rootsift", "sift", "orb", "akaze")
"""Local features that come with OpenCV."""


Completion: TypeAlias = Callable[[str], list[tuple[str, str]]]
"""From the beginning of a name to names and what they are."""


def _models(*tasks: str, opencv: Sequence[str] = ()) -> Completion:
    def names(incomplete: str) -> list[tuple[str, str]]:
        from solar.models import zoo

        known = [(name, "comes with OpenCV") for name in opencv]
        known += [
            (entry.name, f"{entry.architecture}, trained on {entry.trained_on}")
            for entry in zoo.models()
            if entry.task in tasks
        ]
        return [(name, about) for name, about in known if name.startswith(incomplete)]

    return names


photo_models = _models("retrieval")
keypoint_models = _models("patches", "local", opencv=OPENCV)
patch_describers = _models("patches", opencv=OPENCV[:2])
any_models = _models("retrieval", "patches", "local")


def rerank_methods(incomplete: str) -> list[tuple[str, str]]:
    """Ways to re-rank, also after others and a comma."""
    from solar.ranking.rerank import METHODS

    before, comma, last = incomplete.rpartition(",")
    return [
        (f"{before}{comma}{name}", method.summary)
        for name, method in METHODS.items()
        if name.startswith(last)
    ]


def recipes(incomplete: str) -> list[tuple[str, str]]:
    """Recipes that come with solar."""
    from solar.training.recipe import bundled_recipes

    names = bundled_recipes()
    return [(name, "bundled recipe") for name in names if name.startswith(incomplete)]
