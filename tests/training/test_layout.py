"""Flat vectors and the tensors in them."""

import numpy as np

from fielding.training.layout import Layout


def test_a_tensor_without_dimensions_is_found_in_a_vector_and_in_rows() -> None:
    layout = Layout(names=("weight", "num_batches_tracked"), shapes=((2,), ()), n_parameters=1)
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)

    assert layout.tensors(rows[0])["num_batches_tracked"].shape == ()
    assert layout.tensors(rows)["num_batches_tracked"].tolist() == [2.0, 5.0]
    assert layout.flat(layout.tensors(rows[1])).tolist() == [3.0, 4.0, 5.0]
