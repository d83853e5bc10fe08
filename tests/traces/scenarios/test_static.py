import numpy as np

from fielding.traces.scenarios.static import Static
from tests.traces.scenarios.pools import concepts_of, histograms, image_pool, request_for


def test_clients_of_a_concept_see_its_label_mix_all_the_time() -> None:
    schedule = Static(concepts=2).deal(image_pool(), request_for(6, 4, samples=3000), seed=1)
    shares = histograms(schedule, 6)
    concept = concepts_of(schedule)[0]

    for one in range(2):
        mine = shares[:, concept == one].reshape(-1, 6)
        assert np.abs(mine - mine[0]).max() < 0.05
    assert np.abs(shares[0, concept == 0].mean(axis=0) - shares[0, concept == 1].mean(axis=0)).max() > 0.1


def test_samples_are_new_in_every_interval() -> None:
    schedule = Static().deal(image_pool(600), request_for(1, 2, n_first=1, samples=20), seed=1)

    assert (schedule.sample[:20] != schedule.sample[20:]).any()
