from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.filled import filled

from solar.demo import toy
from solar.describe import Throughput
from solar.describe.pipeline import QueryEncoder
from solar.errors import SolarError
from solar.models import RetrievalNet

SCALES = (1.0, 2**0.5, 0.5**0.5)
BOX = (5.0, 4.0, 180.0, 241.0)
ALONE = Throughput(decoders=0, batch=1)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """A photo larger than the network's size, lying on its side."""
    (tmp_path / "one").mkdir()
    path = tmp_path / "one" / "photo.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    toy.landmark(1, 1, size=(300, 200)).save(path, exif=exif, quality=95)
    return path


@pytest.mark.parametrize(
    "settings",
    [{}, {"size": 48, "scales": SCALES}, {"orient": False}, {"mode": "fast", "size": 40}],
    ids=str,
)
@pytest.mark.parametrize("box", [None, BOX])
def test_a_query_is_described_as_a_store_describes_it(
    photo: Path, tiny: RetrievalNet, tmp_path: Path, settings: dict, box: tuple | None
) -> None:
    boxes = {"photo.jpg": box} if box else None
    index = filled(
        photo.parent, tmp_path / "s", model=tiny, boxes=boxes, throughput=ALONE, **settings
    )
    [described] = np.asarray(index.vectors)
    found = QueryEncoder(tiny, index.spec.settings)(photo, box)
    np.testing.assert_array_equal(found, described)
    assert found.dtype == np.float32
    if settings:
        assert not np.array_equal(QueryEncoder(tiny)(photo, box), described)


def test_every_form_of_a_photo_gives_the_same_descriptor(photo: Path, tiny: RetrievalNet) -> None:
    encoder = QueryEncoder(tiny, {"mode": "exact"})  # files are decoded as arrays were
    upright = np.asarray(Image.open(photo).transpose(Image.Transpose.ROTATE_270))
    with Image.open(photo) as opened:
        forms = [photo, str(photo), photo.read_bytes(), opened, upright]
        rows = [encoder(form, BOX) for form in forms]
    for row in rows[1:]:
        np.testing.assert_array_equal(row, rows[0])


def test_photos_of_one_size_share_passes_within_a_budget(
    tiny: RetrievalNet, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = QueryEncoder(tiny)
    photos = [encoder.decode(toy.landmark(1, view, size=(64, 48))) for view in range(5)]
    alone = [encoder.describe([one])[0] for one in photos]
    passes: list[int] = []
    run = encoder._run
    monkeypatch.setattr("solar.describe.pipeline._PIXELS", 2 * 64 * 48)
    monkeypatch.setattr(encoder, "_run", _Counted(run, passes))
    # A convolution of another batch may add in another order, so the last bits may differ.
    np.testing.assert_allclose(encoder.describe(photos), alone, atol=1e-6)
    assert passes == [2, 2, 1]


class _Counted:
    def __init__(self, run: object, passes: list[int]) -> None:
        self.run, self.passes = run, passes
        self.device = run.device

    def __call__(self, pixels: object) -> object:
        self.passes.append(len(pixels))
        return self.run(pixels)


def test_the_backend_and_the_device_of_a_store_are_not_taken_over(tiny: RetrievalNet) -> None:
    encoder = QueryEncoder(tiny, {"size": 32, "backend": "openvino-int8", "device": "cuda"})
    assert (encoder.settings.backend, encoder.settings.device) == ("auto", "cpu")
    assert encoder.settings.size == 32


def test_too_little_to_recognise_is_told(photo: Path, tiny: RetrievalNet) -> None:
    with pytest.raises(SolarError, match="1 × 10"):
        QueryEncoder(tiny)(photo, (10, 10, 16, 60))
