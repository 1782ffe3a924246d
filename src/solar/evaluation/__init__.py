"""Retrieval metrics: mAP, precision and recall on published sets and your own photos."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from solar.evaluation.collection import evaluate as evaluate
    from solar.evaluation.labelled import evaluate_labels as evaluate_labels
    from solar.evaluation.protocols.revisited import evaluate_ground_truth as evaluate_ground_truth
    from solar.evaluation.result import Comparison as Comparison
    from solar.evaluation.result import Evaluation as Evaluation
    from solar.evaluation.result import compare as compare
    from solar.evaluation.result import interval as interval
    from solar.evaluation.settings import EvaluationSettings as EvaluationSettings
else:
    _HOMES = {
        "Comparison": "solar.evaluation.result",
        "Evaluation": "solar.evaluation.result",
        "EvaluationSettings": "solar.evaluation.settings",
        "compare": "solar.evaluation.result",
        "evaluate": "solar.evaluation.collection",
        "evaluate_ground_truth": "solar.evaluation.protocols.revisited",
        "evaluate_labels": "solar.evaluation.labelled",
        "interval": "solar.evaluation.result",
    }
    __all__ = list(_HOMES)

    def __getattr__(name: str) -> Any:
        """Import a name when it is first used."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        return __all__
