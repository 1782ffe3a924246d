import pytest
import torch

from solar.errors import SolarError
from solar.models import load
from solar.models.inference import best_device, checked_device


def test_without_a_name_the_best_device_is_taken() -> None:
    assert checked_device() == torch.device(best_device())
    assert checked_device(torch.device("cpu")) == checked_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu", "tpu", "CPU", "cpu:x", "meta", "xpu", "hpu", " "])
def test_a_device_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(SolarError, match=rf"'{name}'"):
        checked_device(name)


@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda")])
def test_a_machine_without_cuda_says_so(
    device: str | torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for ask in (checked_device, lambda device: load(device=device)):
        with pytest.raises(SolarError, match="CUDA"):
            ask(device)


def test_a_cuda_device_beyond_the_last_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert checked_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(SolarError, match="has no device 'cuda:2'"):
        checked_device("cuda:2")
