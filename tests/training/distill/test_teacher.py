from pathlib import Path

import pytest
import torch
from support.drawn import drawn_retrieval
from support.teachers import Filters, exported, torchscript
from torch import nn

from solar.errors import SolarError
from solar.models import PatchConfig, PatchNet, RetrievalConfig, save
from solar.models.retrieval_config import IMAGENET_MEAN, IMAGENET_STD
from solar.nn import GeM, l2_normalize
from solar.training.distill.loss import Imitator
from solar.training.distill.recipe import Student
from solar.training.distill.teacher import load_teacher, load_teachers


def normalised(images: torch.Tensor) -> torch.Tensor:
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (IMAGENET_MEAN, IMAGENET_STD))
    return (images - mean) / std


@pytest.mark.parametrize("kind", ["torchscript", "export"])
def test_a_program_gives_its_map_and_what_gem_makes_of_it(tmp_path: Path, kind: str) -> None:
    path = (
        torchscript(tmp_path / "teacher.ts")
        if kind == "torchscript"
        else exported(tmp_path / "teacher.pt2")
    )
    teacher = load_teacher(path, sizes=(64, 96))
    images = torch.rand(3, 3, 96, 64)
    features, descriptors = teacher(images)
    expected = Filters()(normalised(images))
    torch.testing.assert_close(features, expected)
    torch.testing.assert_close(descriptors, l2_normalize(GeM(p=3.0)(expected)))
    assert (teacher.channels, teacher.dim) == (24, 24)


def test_a_retrieval_network_gives_its_backbones_map_and_its_own_descriptor(tmp_path: Path) -> None:
    network = drawn_retrieval(RetrievalConfig("resnet18", dim=48))
    teacher = load_teacher(save(network, tmp_path / "net.safetensors"), sizes=(64,))
    images = torch.rand(2, 3, 64, 64)
    features, descriptors = teacher(images)
    with torch.no_grad():
        torch.testing.assert_close(features, network.backbone(normalised(images)))
        torch.testing.assert_close(descriptors, network(normalised(images)))
    assert (teacher.channels, teacher.dim) == (512, 48)


def test_a_teacher_never_learns(tmp_path: Path) -> None:
    network = drawn_retrieval(RetrievalConfig("resnet18"))
    teacher = load_teacher(save(network, tmp_path / "net.safetensors"), sizes=(64,)).train()
    before = {name: value.clone() for name, value in teacher.state_dict().items()}
    features, _ = teacher(torch.rand(2, 3, 64, 64))
    assert not features.requires_grad
    assert not any(parameter.requires_grad for parameter in teacher.parameters())
    assert all(torch.equal(value, before[name]) for name, value in teacher.state_dict().items())


def test_a_program_without_a_map_is_refused(tmp_path: Path) -> None:
    flat = torchscript(
        tmp_path / "flat.ts", nn.Sequential(Filters(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    )
    with pytest.raises(SolarError, match=r"\(2, 24\)"):
        load_teacher(flat, sizes=(64,))


def test_a_program_for_another_size_is_refused(tmp_path: Path) -> None:
    fixed = exported(tmp_path / "fixed.pt2", fixed=True)
    with pytest.raises(SolarError, match="128 × 128"):
        load_teacher(fixed, sizes=(128,))


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.pt2").write_bytes(b"nothing")
    with pytest.raises(SolarError, match=r"broken\.pt2"):
        load_teacher(tmp_path / "broken.pt2")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SolarError, match="There is no"):
        load_teacher(tmp_path / "none.safetensors")


def test_a_patch_network_is_no_teacher(tmp_path: Path) -> None:
    path = save(PatchNet(PatchConfig()), tmp_path / "patches.safetensors")
    with pytest.raises(SolarError, match="describes patches"):
        load_teacher(path)


def test_a_projection_gives_the_teachers_grid_and_channels(tmp_path: Path) -> None:
    teacher = load_teacher(torchscript(tmp_path / "teacher.ts"), sizes=(64,))
    imitator = Imitator(Student(), teacher)
    places, pooled, descriptors = imitator(torch.rand(2, 3, 64, 96), (3, 2))
    assert places.shape == (2, 24, 3, 2)
    assert pooled.shape == (2, 24)
    assert descriptors.shape == (2, 512)


def test_a_whitened_teacher_sees_how_photos_differ(tmp_path: Path) -> None:
    teacher = load_teacher(torchscript(tmp_path / "teacher.ts"), sizes=(64,))
    photos = [torch.rand(16, 3, 64, 96) ** (1 + n) for n in range(6)]
    teacher.whiten(photos, 0.5)
    seen = [teacher(batch) for batch in photos]
    maps = torch.cat([features for features, _ in seen])
    assert maps.mean(dim=(0, 2, 3)).abs().max() < 1e-4
    plain = torch.cat([teacher.features(batch) for batch in photos])
    expected = plain.std(dim=(0, 2, 3), correction=0).sqrt()
    lively = expected > 0.1 * expected.max()
    assert torch.allclose(
        maps.std(dim=(0, 2, 3), correction=0)[lively], expected[lively], rtol=1e-3
    )
    rows = torch.cat([descriptors for _, descriptors in seen])
    assert torch.allclose(rows.norm(dim=1), torch.ones(len(rows)))
    raw = torch.cat([teacher.head(features) for features in plain.split(16)])
    alike, different = ((x @ x.T).triu(1).sum().item() for x in (raw, rows))
    assert alike > 0.8 * len(rows) * (len(rows) - 1) / 2  # before, all photos look alike
    assert abs(different) < 0.2 * alike


def test_several_teachers_describe_side_by_side(tmp_path: Path) -> None:
    network = drawn_retrieval(RetrievalConfig("resnet18", dim=48))
    sources = (
        str(torchscript(tmp_path / "teacher.ts")),
        str(save(network, tmp_path / "net.safetensors")),
    )
    both = load_teachers(sources, sizes=(64,))
    images = torch.rand(2, 3, 64, 96)
    features, descriptors = both(images)
    first, second = (load_teacher(source, sizes=(64,))(images) for source in sources)
    assert both.dim == 24 + 48
    assert torch.equal(features, first[0])
    similarity = (first[1] @ first[1].T + second[1] @ second[1].T) / 2
    assert torch.allclose(descriptors @ descriptors.T, similarity, atol=1e-6)


def test_a_teacher_has_its_share_of_similarities(tmp_path: Path) -> None:
    network = drawn_retrieval(RetrievalConfig("resnet18", dim=48))
    sources = (
        str(torchscript(tmp_path / "teacher.ts")),
        str(save(network, tmp_path / "net.safetensors")),
    )
    images = torch.rand(4, 3, 64, 96)
    _, descriptors = load_teachers(sources, sizes=(64,), shares=(1, 3))(images)
    first, second = (load_teacher(source, sizes=(64,))(images)[1] for source in sources)
    similarity = (first @ first.T + 3 * second @ second.T) / 4
    assert torch.allclose(descriptors @ descriptors.T, similarity, atol=1e-6)


def test_teachers_are_whitened_unless_they_have_a_whitening_of_their_own(tmp_path: Path) -> None:
    plain = drawn_retrieval(RetrievalConfig("resnet18", whitening=False))
    own = drawn_retrieval(RetrievalConfig("resnet18", dim=48))
    sources = (
        str(torchscript(tmp_path / "teacher.ts")),
        str(save(plain, tmp_path / "plain.safetensors")),
        str(save(own, tmp_path / "own.safetensors")),
    )
    teachers = load_teachers(sources, sizes=(64,))
    photos = [torch.rand(16, 3, 64, 96) ** (1 + n) for n in range(4)]
    before = [other(photos[0])[1] for other in teachers.others]
    teachers.whiten(photos, 0.5)
    after = [other(photos[0])[1] for other in teachers.others]
    assert not torch.allclose(after[0], before[0], atol=1e-3)
    assert torch.equal(after[1], before[1])
    rows = torch.cat([teachers.others[0](batch)[1] for batch in photos])
    assert rows.mean(dim=0).norm() < 0.2  # of unit rows that were nearly all alike
