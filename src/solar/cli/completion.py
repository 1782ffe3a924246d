"""Shell completion for names of models and recipes, without importing torch."""

OPENCV = ("rootsift", "sift", "orb", "akaze")
"""Local features that come with OpenCV."""


def photo_models(incomplete: str) -> list[tuple[str, str]]:
    """Names of models that describe photos."""
    return _models(incomplete, "retrieval")


def keypoint_models(incomplete: str) -> list[tuple[str, str]]:
    """Local features."""
    return _of_opencv(incomplete, *OPENCV) + _models(incomplete, "patches", "local")


def patch_describers(incomplete: str) -> list[tuple[str, str]]:
    """Descriptors of patches."""
    return _of_opencv(incomplete, "rootsift", "sift") + _models(incomplete, "patches")


def _of_opencv(incomplete: str, *names: str) -> list[tuple[str, str]]:
    return [(name, "comes with OpenCV") for name in names if name.startswith(incomplete)]


def any_models(incomplete: str) -> list[tuple[str, str]]:
    """Names of models that describe photos, patches or local features."""
    return _models(incomplete, "retrieval", "patches", "local")


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


def _models(incomplete: str, *tasks: str) -> list[tuple[str, str]]:
    from solar.models import zoo

    return [
        (entry.name, f"{entry.architecture}, trained on {entry.trained_on}")
        for entry in zoo.models()
        if entry.task in tasks and entry.name.startswith(incomplete)
    ]
