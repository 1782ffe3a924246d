"""The models in the box, for tests that need their weights."""

import pytest

from solar import weights

absent = [n for n in weights.NAMES if not (weights.FOLDER / f"{n}.safetensors").is_file()]

needs_weights = pytest.mark.skipif(
    bool(absent), reason=f"src/solar/weights lacks {', '.join(absent)}"
)
