"""Devices that are there, and thread counts that come back."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from fielding.errors import OptionError  # noqa: E402
from fielding.training.torch_trainer import TorchThreads, device_named  # noqa: E402


@pytest.mark.parametrize("name", ["gpu", "meta", "", "cuda:x"])
def test_unknown_devices_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match="give cpu, cuda"):
        device_named(name)


@pytest.mark.parametrize(("name", "n_cuda"), [("cuda", 0), ("cuda:1", 1), ("mps", 1)])
def test_missing_devices_are_refused(name: str, n_cuda: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)

    with pytest.raises(OptionError, match=f"device '{name}' is not available here .* use cpu"):
        device_named(name)


def test_a_device_that_is_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)

    assert device_named("cuda:1") == torch.device("cuda", 1)


def test_the_thread_count_is_given_back_at_the_last_exit() -> None:
    threads = TorchThreads()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with threads.limited_to(1):
            with threads.limited_to(1):
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
