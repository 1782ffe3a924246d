import pytest

from solar.mirror import MirrorError, Pace


def wait(pace: Pace, times: int, seconds: float, count: int) -> None:
    for _ in range(times):
        pace.add(seconds, count)


@pytest.mark.parametrize(("count", "seconds"), [(2, 1), (1, 29), (1000, 1), (0x7000, 29)])
def test_less_than_a_kilobyte_per_second_is_given_up_within_a_minute(
    count: int, seconds: float
) -> None:
    pace = Pace()
    with pytest.raises(MirrorError, match="1 KiB"):
        wait(pace, int(60 / seconds), seconds, count)


def test_a_mirror_that_stops_half_way_is_given_up() -> None:
    pace = Pace()
    wait(pace, 600, 1, 1 << 16)
    with pytest.raises(MirrorError):
        wait(pace, 60, 1, 2)
