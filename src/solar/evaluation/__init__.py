"""How well photos are found again: mAP, precision and recall on published sets and one's own."""

from solar.evaluation.collection import evaluate
from solar.evaluation.evaluation_settings import EvaluationSettings
from solar.evaluation.labelled import evaluate_labels
from solar.evaluation.result import Evaluation
from solar.evaluation.revisited_protocol import evaluate_ground_truth
from solar.evaluation.significance import Comparison, compare, interval

__all__ = [
    "Comparison",
    "Evaluation",
    "EvaluationSettings",
    "compare",
    "evaluate",
    "evaluate_ground_truth",
    "evaluate_labels",
    "interval",
]
