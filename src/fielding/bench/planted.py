"""Label histograms with planted groups: what the clustering benchmarks run on."""

import numpy as np
import numpy.typing as npt

CHUNK = 16_384


def planted_histograms(
    n_clients: int, n_labels: int, *, n_groups: int = 6, n_samples: int = 200, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """Return the label shares of clients whose samples come from one of a few label mixes.

    Parameters
    ----------
    n_clients, n_labels
        The shape.
    n_groups
        How many mixes there are, each a draw from a Dirichlet(0.3).
    n_samples
        Samples per client.
    rng
        The generator.

    Examples
    --------
    >>> from fielding.rng import stream
    >>> planted_histograms(4, 3, rng=stream(1, "bench")).sum(axis=1).round(3).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    mixes = rng.dirichlet(np.full(n_labels, 0.3), size=n_groups)
    shares = np.empty((n_clients, n_labels), dtype=np.float32)
    for start in range(0, n_clients, CHUNK):
        rows = shares[start : start + CHUNK]
        # A gamma per label around the mix: as noisy as a multinomial sample and a hundred times faster to draw.
        rows[:] = rng.standard_gamma(mixes[rng.integers(n_groups, size=rows.shape[0])] * n_samples + 1e-3)
        rows /= rows.sum(axis=1, keepdims=True)
    return shares
