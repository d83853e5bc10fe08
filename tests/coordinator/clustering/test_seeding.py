import numpy as np

from fielding.coordinator.clustering.kmeans import draw_rows, seed_rows


def test_far_groups_each_get_a_seed() -> None:
    line = np.repeat([0.0, 100.0, 200.0, 300.0], 10) + np.tile(np.arange(10.0), 4) * 1e-3
    squares = (line[:, None] - line) ** 2

    seeds = seed_rows(squares, 4, n_restarts=20, rng=np.random.default_rng(1))

    assert all(sorted(row // 10) == [0, 1, 2, 3] for row in seeds)


def test_seeds_of_equal_points_do_not_fail() -> None:
    seeds = seed_rows(np.zeros((5, 5)), 3, n_restarts=2, rng=np.random.default_rng(1))

    assert seeds.shape == (2, 3)
    assert seeds.min() >= 0
    assert seeds.max() <= 4


def test_rows_are_drawn_in_proportion_to_their_mass() -> None:
    drawn = draw_rows(np.array([[0.0, 1.0, 3.0]]), 4_000, rng=np.random.default_rng(1))

    shares = np.bincount(drawn[0], minlength=3) / 4_000
    assert shares[0] == 0.0
    assert abs(shares[2] - 0.75) < 0.03
