"""Working copies of modules: numbers in, numbers out, lent and given back."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from fielding.training.torch_module import Replica, Replicas, layout_of, tensors_of  # noqa: E402  # noqa: E402
from tests.training import modules  # noqa: E402

MODULE = modules.convolved(input_shape=(2, 5, 5), n_classes=3)
LAYOUT = layout_of(MODULE)
CPU = torch.device("cpu")
NUMBERS = np.arange(LAYOUT.size, dtype=np.float32)


def test_what_is_loaded_is_in_the_tensors_and_comes_out_again() -> None:
    replica = Replica(MODULE, LAYOUT, device=CPU)

    replica.load(NUMBERS)

    assert np.array_equal(replica.model(), NUMBERS)
    for name, part in LAYOUT.tensors(NUMBERS).items():
        assert np.array_equal(tensors_of(replica.module)[name].detach().numpy(), part)


def test_a_step_on_the_vector_is_a_step_of_every_parameter() -> None:
    replica = Replica(MODULE, LAYOUT, device=CPU)
    replica.load(NUMBERS)

    replica.parameters.add_(1.0)

    end = LAYOUT.parameter_size
    assert np.array_equal(replica.model()[:end], NUMBERS[:end] + 1.0)
    assert np.array_equal(replica.model()[end:], NUMBERS[end:])


def test_numbers_can_be_arranged_as_the_parameters_are() -> None:
    replica = Replica(MODULE, LAYOUT, device=CPU)
    replica.load(NUMBERS)

    arranged = replica.arrange(NUMBERS.astype(np.float64))

    assert arranged.dtype == torch.float32
    assert torch.equal(arranged, replica.parameters)
    assert not np.array_equal(arranged.numpy(), NUMBERS[: LAYOUT.parameter_size])  # kernels lie differently


def test_gradients_land_in_the_vector_and_are_gone_after_loading() -> None:
    replica = Replica(MODULE, LAYOUT, device=CPU)
    replica.load(NUMBERS / np.float32(LAYOUT.size))

    replica.module(torch.ones(4, 2, 5, 5)).square().sum().backward()

    assert replica.gradient.abs().sum() > 0
    replica.load(NUMBERS)
    assert replica.gradient.abs().sum() == 0


def test_the_module_that_is_copied_stays_as_it_is() -> None:
    before = {name: tensor.clone() for name, tensor in MODULE.state_dict().items()}

    replica = Replica(MODULE, LAYOUT, device=CPU)
    replica.load(NUMBERS)

    assert all(torch.equal(tensor, before[name]) for name, tensor in MODULE.state_dict().items())


def test_replicas_are_lent_again_and_never_twice_at_a_time() -> None:
    replicas = Replicas(MODULE, LAYOUT, device=CPU)
    with replicas.borrow() as first, replicas.borrow() as second:
        assert first is not second

    with replicas.borrow() as again:
        assert again in (first, second)


def test_a_replica_comes_back_from_a_borrower_that_failed() -> None:
    replicas = Replicas(MODULE, LAYOUT, device=CPU)
    with pytest.raises(ZeroDivisionError), replicas.borrow() as first:
        raise ZeroDivisionError

    with replicas.borrow() as again:
        assert again is first
