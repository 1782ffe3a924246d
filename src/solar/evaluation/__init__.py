"""Retrieval metrics: mAP, precision and recall on published sets and your own photos."""

from typing import TYPE_CHECKING

from solar.lazy import on_first_use

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
    __all__, __getattr__, __dir__ = on_first_use(
        __name__,
        {
            "solar.evaluation.collection": "evaluate",
            "solar.evaluation.labelled": "evaluate_labels",
            "solar.evaluation.protocols.revisited": "evaluate_ground_truth",
            "solar.evaluation.result": "Comparison Evaluation compare interval",
            "solar.evaluation.settings": "EvaluationSettings",
        },
    )
