import json
import signal
import subprocess
from pathlib import Path
from time import sleep

import numpy as np
import pytest
import typer
from PIL import Image
from support.boxed import needs_weights
from support.filled import named, segments
from support.running import command, environment, solar

from solar.cli.progress import photo_progress, steps


class Clock:
    """Time that passes when told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("rich.console.monotonic", clock)
    return clock


def test_without_a_terminal_there_is_a_line_every_five_seconds_and_one_at_the_end(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with photo_progress() as shown:
        for done in range(0, 121, 10):  # ten photos in a second
            shown("Describing", done, 338)
            clock.now += 1
    assert shown.done == 120
    assert capsys.readouterr().err.splitlines() == [
        "Describing: 50 of 338 photos, 10.0 photos/s, 0:00:29 left",
        "Describing: 100 of 338 photos, 10.0 photos/s, 0:00:24 left",
        "Describing: 120 of 338 photos, 10.0 photos/s, 0:00:22 left",
    ]


def test_the_time_left_does_not_swing_with_the_batches(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with photo_progress() as shown:
        for batch in range(40):  # of small photos, then of large ones: 2.1 photos/s on average
            shown("Describing", 32 * batch, 2000)
            clock.now += 5 if batch % 6 < 3 else 25
    lines = capsys.readouterr().err.splitlines()
    speeds = [float(line.split(", ")[1].split()[0]) for line in lines if " left" in line]
    settled = speeds[len(speeds) // 2 :]
    assert max(settled) < 1.3 * min(settled)


def test_what_is_done_within_five_seconds_is_not_told(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with photo_progress() as shown:
        for done in range(2):
            clock.now += 2
            shown("Describing", done + 1, 2)
    assert capsys.readouterr().err == ""


def test_items_and_steps_are_told_as_well(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with steps() as watch:
        for done in range(4):
            watch("Looking at\x1b", done, 3)
            clock.now += 3
    with steps() as watch:
        watch("Comparing", 0, 7205)
        clock.now += 6
        watch("Comparing", 5, 7205)
        clock.now += 6
        watch("Comparing", 10, 7205)
    assert capsys.readouterr().err.splitlines() == [
        r"Looking at\x1b: 2 of 3, 0:00:03 left",
        r"Looking at\x1b: 3 of 3",
        "Comparing: 5 of 7,205",
        "Comparing: 10 of 7,205, 2:23:54 left",
    ]


def test_photos_of_several_runs_add_up() -> None:
    with steps() as shown:
        for _ in range(2):
            for done in range(5):
                shown("Describing", done, 4)
    assert shown.done == 8


def test_a_stop_says_how_to_continue(capsys: pytest.CaptureFixture[str]) -> None:
    def stopped() -> None:
        with photo_progress() as shown:
            shown("Describing", 120, 338)
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as ended:
        stopped()
    assert ended.value.exit_code == 130
    assert (
        capsys.readouterr().err
        == "Stopped after 120 of 338 photos; run the same command again to continue.\n"
    )


@needs_weights
def test_ctrl_c_leaves_an_index_that_goes_on(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    rng = np.random.default_rng(0)
    for number in range(900):
        pixels = rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(photos / f"{number:03}.png")
    index = tmp_path / "photos.solar"
    command = ["index", "build", photos, "-o", index, "--json"]
    process = _started(*command)
    while not named(index):
        assert process.poll() is None
        sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    last = err.splitlines()[-1]  # on a slow machine, lines of progress come before it
    assert last.startswith("Stopped after ")
    assert last.endswith(" of 900 photos; run the same command again to continue.")
    done = sum(segment.rows for segment in segments(index))
    assert 0 < done < 900
    summary = json.loads(solar(*command).stdout)
    assert summary["processed_now"] == 900 - done
    assert summary["photos"] == 900


def _started(*arguments: object) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command(*arguments), **pipes, text=True, env=environment())
