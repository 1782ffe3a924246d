import json
from pathlib import Path

import pytest
from support.evaluate_networks import network

from solar.demo import toy
from solar.models import RetrievalNet


@pytest.fixture(scope="session")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generated photos of three landmarks, four views each."""
    folder = tmp_path_factory.mktemp("toys")
    toy.write(folder, landmarks=3, views=4, size=(64, 48))
    return folder


@pytest.fixture(scope="session")
def truth(toys: Path) -> Path:
    """A ground truth for them: the first view asks inside a box, the second is junk."""
    names = [f"landmark-{i:03}/view-{j:03}.jpg" for i in range(3) for j in range(4)]
    queries = [
        {
            "photo": names[4 * i],
            "box": [8, 4, 60, 44],
            "easy": [names[4 * i + 2]],
            "hard": [names[4 * i + 3]],
            "junk": [names[4 * i + 1]],
        }
        for i in range(3)
    ]
    database = [name for name in names if name not in {query["photo"] for query in queries}]
    path = toys / "truth.json"
    path.write_text(json.dumps({"database": database, "queries": queries}))
    return path


@pytest.fixture(scope="session")
def tiny() -> RetrievalNet:
    return network()


@pytest.fixture(scope="session")
def other() -> RetrievalNet:
    return network(1, attention={5: 2})
