"""How well photos are found again: mAP, precision and recall on published sets and one's own.

`solar.evaluate` is both this package and its main function: calling it calls `evaluate`.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from solar.evaluate.collection import evaluate
from solar.evaluate.labelled import evaluate_labels
from solar.evaluate.result import Evaluation
from solar.evaluate.revisited import evaluate_ground_truth
from solar.evaluate.significance import Comparison, compare, interval

__all__ = [
    "Comparison",
    "Evaluation",
    "compare",
    "evaluate",
    "evaluate_ground_truth",
    "evaluate_labels",
    "interval",
]


class _Callable(ModuleType):
    """Importing a part of a package puts the package where the function of its name was."""

    __call__: Callable[..., Any] = staticmethod(evaluate)


sys.modules[__name__].__class__ = _Callable
