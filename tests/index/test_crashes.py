"""What happens to an embedded index when processes die or crowd: real processes, real kills."""

import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
from support.running import command, python

from solar.index import Index
from solar.storage.types import Hit

DIM = 32
STEP = 60  # photos added by one change

# Goes on changing the index until it is killed, and says each version that it has finished.
WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from test_crashes import change, number
from solar.index import Index
index = Index.open(sys.argv[1])
print("ready", flush=True)
while True:
    change(index, number(index) + 1)
    print(number(index), flush=True)
"""


def unit(seed: int, rows: int) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((rows, DIM)).astype(np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def number(index: Index) -> int:
    return int(index.info()["version"])


def batch(version: int) -> list[str]:
    return [f"{version}/{row}.jpg" for row in range(STEP)]


def change(index: Index, version: int) -> None:
    """Take the index from the version before to this one, which its number alone determines."""
    if version % 8 == 7:
        index.compact()
    elif version % 2 == 0:
        index.add(unit(version, STEP), batch(version))
    else:
        index.remove(batch(version - 1)[: STEP // 2])


def expected(version: int) -> dict[str, np.ndarray]:
    """What the index holds at a version."""
    state: dict[str, np.ndarray] = {}
    for v in range(1, version + 1):
        if v % 8 == 7:
            continue
        if v % 2 == 0 or v == 1:
            state |= zip(batch(v), unit(v, STEP), strict=True)
        else:
            for path in batch(v - 1)[: STEP // 2]:
                del state[path]
    return state


def found(state: dict[str, np.ndarray], query: np.ndarray, k: int) -> list[Hit]:
    scored = [
        (p, float(np.float32(v.astype(float) @ query.astype(float)))) for p, v in state.items()
    ]
    scored.sort(key=lambda pair: -pair[1])
    return [Hit(*pair) for pair in scored[:k]]


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*python(), "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_writer_leaves_the_version_before_or_after(tmp_path: Path) -> None:
    folder = tmp_path / "photos.solar"
    Index.create(folder, unit(1, STEP), batch(1)).close()
    dice, query = random.Random(0), unit(0, 1)[0]
    in_the_middle = kills = 0
    while kills < 20 or (not in_the_middle and kills < 100):
        kills += 1
        writer = start(WRITER, folder, *Path(__file__).parents[:2])
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        said = [writer.stdout.readline() for _ in range(dice.randrange(4))]
        time.sleep(dice.uniform(0.0, 0.03))
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.read().split()  # communicate() would pass over what is buffered
        writer.communicate()
        with Index.open(folder) as index:
            now = number(index)
            # What was said to be done is done; at most the next change is done as well.
            assert not said or now - int(said[-1]) in (0, 1)
            written = sum(file.stat().st_size for file in folder.glob("segments/*"))
            in_the_middle += written != index.info()["bytes_of_vectors"]
            assert index.check() == []
            assert index.search(query, 10_000) == found(expected(now), query, 10_000)
    assert now > 20  # the writers did get something done,
    assert in_the_middle  # and not all were killed between two changes


READER = """
import sys
from solar.index import Index
import numpy as np
index = Index.open(sys.argv[1])
query = np.eye(1, 32, dtype=np.float32)[0]
seen = set()
print("ready", flush=True)
import select
while not select.select([sys.stdin], [], [], 0)[0]:
    hits = index.search(query, 100)
    versions = {round(hit.score * 100_000) // 100 for hit in hits}
    places = sorted(round(hit.score * 100_000) % 100 for hit in hits)
    assert len(versions) == 1 and places == list(range(40)), (versions, places)
    assert sorted(hit.path for hit in hits) == sorted(f"{n}.jpg" for n in range(40)), hits
    seen |= versions
    if len(seen) % 5 == 0:
        index = Index.open(sys.argv[1])
print(len(seen), flush=True)
"""


def scored(version: int) -> np.ndarray:
    """Forty vectors whose scores against the first axis tell their version and their place."""
    vectors = np.zeros((40, 32), np.float32)
    vectors[:, 0] = (100 * version + np.arange(40)) / 100_000
    vectors[:, 1] = np.sqrt(1 - vectors[:, 0] ** 2)
    return vectors


def test_eight_readers_see_whole_versions_while_one_process_writes(tmp_path: Path) -> None:
    folder = tmp_path / "photos.solar"
    names = [f"{n}.jpg" for n in range(40)]
    index = Index.create(folder, scored(1), names)
    readers = [start(READER, folder) for _ in range(8)]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    for version in range(2, 60):
        index.add(scored(version), names)
        if version % 10 == 0:
            index.compact()
    counts = [int(reader.communicate("stop\n")[0]) for reader in readers]
    assert [reader.returncode for reader in readers] == [0] * 8
    assert max(counts) > 3  # they did watch it change


def test_another_process_that_writes_is_told_to_wait(tmp_path: Path) -> None:
    folder = tmp_path / "photos.solar"
    Index.create(folder, unit(1, STEP), batch(1)).close()
    holder = start(
        "import sys; from pathlib import Path; from solar.storage.catalogue import Metadata\n"
        "with Metadata(Path(sys.argv[1])).writing(): print('ready', flush=True); input()",
        folder,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    refused = subprocess.run(
        command("index", "remove", folder, batch(1)[0]), capture_output=True, text=True
    )
    holder.communicate("\n")
    assert refused.returncode == 2
    assert "Another process is writing" in refused.stderr
    assert len(Index.open(folder)) == STEP
