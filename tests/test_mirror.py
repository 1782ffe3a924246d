import io

import pytest

from solar import mirror


class Connection(io.RawIOBase):
    """Brings so many bytes at a time, each time after so many seconds of a made-up clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int, seconds: float) -> None:
        self.now, self.count, self.seconds = 0.0, count, seconds
        monkeypatch.setattr(mirror.time, "monotonic", lambda: self.now)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        self.now += self.seconds
        return min(self.count, len(buffer))


def read(rated: mirror._Rated, times: int) -> None:
    for _ in range(times):
        rated.readinto(bytearray(1 << 16))


@pytest.mark.parametrize(("count", "seconds"), [(2, 1), (1, 29), (1000, 1), (0x7000, 29)])
def test_less_than_a_kilobyte_per_second_is_given_up_within_a_minute(
    monkeypatch: pytest.MonkeyPatch, count: int, seconds: float
) -> None:
    connection = Connection(monkeypatch, count, seconds)
    with pytest.raises(mirror.MirrorError, match="less than 1 KiB per second"):
        read(mirror._Rated(connection), 100)
    assert connection.now <= 60


def test_a_mirror_that_stops_half_way_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(monkeypatch, 1 << 16, 1)
    rated = mirror._Rated(connection)
    read(rated, 600)
    connection.count = 2
    with pytest.raises(mirror.MirrorError):
        read(rated, 60)


def test_time_that_we_take_ourselves_is_not_the_mirror_s(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(monkeypatch, 2, 0.001)
    rated = mirror._Rated(connection)
    for _ in range(100):
        rated.readinto(bytearray(16))
        connection.now += 60  # a disk that hangs
    assert connection.now > 6000
