import math

import pytest

from solar.training.schedule import Schedule


@pytest.mark.parametrize(
    ("kind", "step", "wanted"),
    [
        ("linear", 10, 1.0),
        ("linear", 60, 0.1 + 0.9 * 0.5),
        ("linear", 110, 0.1),
        ("cosine", 10, 1.0),
        ("cosine", 35, 0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2),
        ("cosine", 110, 0.1),
        ("exponential", 60, math.exp(-0.02 * 3)),
        ("constant", 60, 1.0),
    ],
)
def test_rates_fall_from_the_end_of_the_warm_up_to_the_last_step(
    kind: str, step: int, wanted: float
) -> None:
    schedule = Schedule(kind, decay=0.02, warmup=10, final=0.1)  # type: ignore[arg-type]
    assert schedule.factor(step, steps=110, steps_per_epoch=20) == pytest.approx(wanted)
    rising = [schedule.factor(early, steps=110, steps_per_epoch=20) for early in range(10)]
    assert rising == pytest.approx([early / 11 for early in range(1, 11)])
