"""Cores of the peers against their published formulas, as slow plain loops, and against Flower's own strategies.

Cases are small and drawn at random: 50 of each by default, 1000 in ``make test-slow``. The coordinator has its own
oracle (``tests/coordinator/test_oracle.py``).
"""

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fielding._typing import Matrix, Models, Vector
from fielding.federation.aggregation import Aggregator, Uploads, aggregator_named
from fielding.federation.aggregation.aggregator import Mean
from fielding.federation.clients import Updates
from fielding.federation.cluster_models import ClusterModels
from fielding.federation.selection.oort import exploitation_chances, speed_factors, staleness_bonus, statistical_scores
from fielding.methods.auxo import CohortScores, reward_likeness
from fielding.methods.cfl import bipartition
from fielding.methods.feddrift import best_rows, concept_distances, link_models, merging_shares, pooled_accuracies
from fielding.methods.flexcfl import decomposed_cosines, pull_together
from fielding.methods.ifca import choose_lowest
from fielding.methods.update_geometry import center_products, cosines, products

SEEDS = st.integers(0, 2**31)


def drawn(seed: int, *shape: int) -> Models:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def cosine(one: Vector, other: Vector) -> float:
    return float(one @ other) / math.sqrt(float(one @ one) * float(other @ other))


def complete_linkage(distance: Matrix, is_done: Callable[[list[list[int]], float], bool]) -> list[list[int]]:
    """Join the two groups whose farthest members are nearest, until it is done."""
    groups = [[at] for at in range(len(distance))]
    while len(groups) > 1:
        nearest, pair = math.inf, (0, 1)
        for first, second in combinations(range(len(groups)), 2):
            apart = max(float(distance[one][other]) for one in groups[first] for other in groups[second])
            if apart < nearest:
                nearest, pair = apart, (first, second)
        if is_done(groups, nearest):
            break
        groups[pair[0]] += groups.pop(pair[1])
    return sorted(sorted(group) for group in groups)


# ---- server optimisers and robust means, against Flower --------------------------------------------------------------


def sent(models: Models, loss: Vector | None = None, rate: float = 0.1) -> Uploads:
    return Uploads(models=models, weights=None, n_parameters=models.shape[1], learning_rate=rate, start_loss=loss)


def flower_step(strategy: Any, model: Models, uploads: Uploads, at: int = 1) -> Models:
    """Return what a strategy of Flower makes of a model in round ``at``; it remembers what it will."""
    from flwr.app import Array, ArrayRecord

    from fielding.flower.server.strategies import _replies

    replies = _replies(uploads)
    if uploads.start_loss is not None:
        for reply, loss in zip(replies, uploads.start_loss.tolist(), strict=True):
            reply.content["metrics"]["train_loss"] = loss
    is_plain = type(strategy).__name__ in ("FedAdagrad", "FedAdam", "FedYogi")
    strategy.current_arrays = {"parameters": model} if is_plain else ArrayRecord({"parameters": Array(model)})
    with pytest.MonkeyPatch.context() as patched:
        # Flower collects garbage with every array that it reads: a second each time in a process with much in it.
        patched.setattr("gc.collect", lambda: 0)
        arrays, _ = strategy.aggregate_train(at, replies)
        (found,) = arrays.to_numpy_ndarrays()
    return np.asarray(found)


@pytest.mark.parametrize("name", ["fedavgm", "fedadagrad", "fedadam", "fedyogi"])
@given(seed=SEEDS, n_models=st.integers(1, 5))
def test_server_optimisers_are_those_of_flower(name: str, seed: int, n_models: int) -> None:
    strategies = pytest.importorskip("flwr.serverapp.strategy", reason="the flower extra is not installed")
    model, eta, betas = drawn(seed, 6), 0.3, {"beta1": 0.8, "beta2": 0.95}
    # Flower's v begins with 0, the paper's with tau^2: begin alike.
    memory: dict[str, Models] = {one: np.zeros(6, dtype=np.float32) for one in aggregator_named(name).memory}
    if name == "fedavgm":
        theirs: Any = strategies.FedAvgM(server_learning_rate=eta, server_momentum=0.8)
    else:
        kind = {"fedadagrad": "FedAdagrad", "fedadam": "FedAdam", "fedyogi": "FedYogi"}[name]
        theirs = getattr(strategies, kind)(
            eta=eta, tau=0.01, **({} if name == "fedadagrad" else {"beta_1": 0.8, "beta_2": 0.95})
        )
    for at in range(1, 4):
        uploads = sent(drawn(seed + at, n_models, 6))
        expected = flower_step(theirs, model, uploads, at)
        # Flower's FedAdam corrects the bias of its moments, which the paper's does not.
        correction = math.sqrt(1 - 0.95 ** (at + 1)) / (1 - 0.8 ** (at + 1)) if name == "fedadam" else 1.0
        options: dict[str, Any] = (
            {"eta": eta, "beta": 0.8} if name == "fedavgm" else {"eta": eta * correction, "tau": 0.01, **betas}
        )
        if name == "fedadagrad":
            options["beta1"] = 0.0
        ours: Aggregator = aggregator_named(name, options)
        model, memory = ours.combine(model, uploads, memory)

        assert np.allclose(model, expected, rtol=2e-3, atol=2e-4)


@given(seed=SEEDS, n_models=st.integers(3, 9), share=st.sampled_from([0.1, 0.2, 0.3, 0.4]))
def test_robust_means_are_those_of_flower(seed: int, n_models: int, share: float) -> None:
    strategies = pytest.importorskip("flwr.serverapp.strategy", reason="the flower extra is not installed")
    model, uploads = drawn(seed, 5), sent(drawn(seed + 1, n_models, 5))
    cases = {
        "trimmed-mean": ({"share": share}, strategies.FedTrimmedAvg(beta=share)),
        "median": ({}, strategies.FedMedian()),
    }
    for name, (options, theirs) in cases.items():
        ours, _ = aggregator_named(name, options).combine(model, uploads, {})

        assert np.allclose(ours, flower_step(theirs, model, uploads), atol=1e-5), name


@given(seed=SEEDS, n_models=st.integers(3, 8), n_liars=st.integers(0, 3))
def test_multi_krum_keeps_the_uploads_with_the_least_sum_of_squared_distances(
    seed: int, n_models: int, n_liars: int
) -> None:
    n_liars = min(n_liars, (n_models - 1) // 2)
    models = drawn(seed, n_models, 5)
    scores = []
    for one in range(n_models):
        apart = sorted(float(((models[one] - models[other]) ** 2).sum()) for other in range(n_models) if other != one)
        scores.append(sum(apart[: max(1, n_models - n_liars - 2)]))
    kept = sorted(sorted(range(n_models), key=scores.__getitem__)[: n_models - n_liars])

    ours, _ = aggregator_named("multi-krum", {"liars": (n_liars + 0.01) / n_models}).combine(
        models[0], sent(models), {}
    )

    assert np.allclose(ours, models[kept].mean(axis=0), atol=1e-5)


@given(seed=SEEDS, n_models=st.integers(1, 6), q=st.sampled_from([0.0, 0.2, 1.0, 2.0]))
def test_q_fedavg_is_that_of_flower(seed: int, n_models: int, q: float) -> None:
    strategies = pytest.importorskip("flwr.serverapp.strategy", reason="the flower extra is not installed")
    loss = np.random.default_rng(seed).uniform(0.2, 3.0, n_models)
    model, uploads = drawn(seed, 5), sent(drawn(seed + 1, n_models, 5), loss, rate=0.05)

    ours, _ = aggregator_named("q-fedavg", {"q": q}).combine(model, uploads, {})

    assert np.allclose(ours, flower_step(strategies.QFedAvg(client_learning_rate=0.05, q=q), model, uploads), atol=1e-4)


# ---- IFCA (METHODS.md 4.1) -------------------------------------------------------------------------------------------


@given(seed=SEEDS, n_clients=st.integers(1, 8), k=st.integers(1, 4))
def test_ifca_averages_the_uploads_of_those_who_chose_a_model(seed: int, n_clients: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    losses, uploads, models = rng.uniform(0, 3, (n_clients, k)), drawn(seed, n_clients, 4), drawn(seed + 1, k, 4)
    choice = [min((losses[one][model], model) for model in range(k))[1] for one in range(n_clients)]
    expected = models.astype(np.float64)
    for model in range(k):
        own = [uploads[one].astype(np.float64) for one in range(n_clients) if choice[one] == model]
        if own:  # a model that no client chose stays
            expected[model] = sum(own) / len(own)

    chosen, answered = choose_lowest(losses)
    clusters = ClusterModels(models[0], Mean())
    clusters.mix(np.ones((k, 1)))
    clusters.models = models
    clusters.learn(
        Updates(
            clients=np.arange(n_clients),
            groups=np.zeros(n_clients, dtype=np.int64),
            start=chosen,
            models=uploads,
            n_samples=np.ones(n_clients, dtype=np.int64),
            loss=np.ones(n_clients),
            square_loss=np.ones(n_clients),
            n_parameters=4,
            learning_rate=0.1,
        )
    )

    assert chosen.tolist() == choice
    assert answered.all()
    assert np.allclose(clusters.models, expected, atol=1e-6)


# ---- FedDrift (METHODS.md 5.3) ---------------------------------------------------------------------------------------


@given(seed=SEEDS, n_models=st.integers(1, 6), threshold=st.sampled_from([0.05, 0.1, 0.3]))
def test_feddrift_merges_models_that_lose_little_on_each_others_data(
    seed: int, n_models: int, threshold: float
) -> None:
    rng = np.random.default_rng(seed)
    n_answers = 3 * n_models
    accuracies, cluster = rng.uniform(0, 1, (n_answers, n_models)), np.repeat(np.arange(n_models), 3)
    # Much alike, and a little better on the data that a model owns, so that some distances are small and none equal.
    accuracies = 0.5 + 0.1 * accuracies
    accuracies[np.arange(n_answers), cluster] += rng.uniform(0.05, 0.2, n_answers)
    sizes, blocks = rng.integers(1, 9, n_answers), rng.integers(1, 6, n_models)
    pooled = [
        [
            sum(sizes[one] * accuracies[one][model] for one in range(n_answers) if cluster[one] == owner)
            / sum(sizes[one] for one in range(n_answers) if cluster[one] == owner)
            for owner in range(n_models)
        ]
        for model in range(n_models)
    ]
    distance = np.array(
        [
            [max(pooled[i][i] - pooled[i][j], pooled[j][j] - pooled[j][i], 0.0) for j in range(n_models)]
            for i in range(n_models)
        ]
    )
    assume(np.unique(distance[np.triu_indices(n_models, k=1)]).size == n_models * (n_models - 1) // 2)
    expected = complete_linkage(distance, lambda _groups, nearest: nearest > threshold)

    found = concept_distances(pooled_accuracies(accuracies, cluster, sizes))
    groups = link_models(found, threshold)

    assert np.allclose(found, distance)
    assert sorted(np.flatnonzero(groups == one).tolist() for one in range(groups.max() + 1)) == expected
    shares = merging_shares(groups, blocks.astype(np.float64))
    for group in range(groups.max() + 1):
        own = [one for one in range(n_models) if groups[one] == group]
        total = sum(blocks[one] for one in own)
        assert shares[group].tolist() == pytest.approx(
            [blocks[one] / total if one in own else 0 for one in range(n_models)]
        )


@given(seed=SEEDS, n_models=st.integers(1, 5))
def test_feddrift_gives_a_block_to_the_best_model_that_its_client_may_use(seed: int, n_models: int) -> None:
    rng = np.random.default_rng(seed)
    accuracies = rng.integers(0, 4, (6, n_models)) / 4.0  # with ties
    allowed = rng.random((6, n_models)) < 0.6
    own = rng.integers(0, n_models, 6)
    allowed[np.arange(6), own] = True
    expected = []
    for client in range(6):
        usable = [model for model in range(n_models) if allowed[client][model]]
        best = max(accuracies[client][model] for model in usable)
        ties = [model for model in usable if accuracies[client][model] == best]
        expected.append(int(own[client]) if own[client] in ties else ties[0])

    assert best_rows(accuracies, own, allowed).tolist() == expected


# ---- CFL (METHODS.md 7) ----------------------------------------------------------------------------------------------


@given(seed=SEEDS, n_updates=st.integers(2, 7))
def test_cfl_cuts_by_complete_linkage_and_never_better_than_the_best_cut(seed: int, n_updates: int) -> None:
    updates = drawn(seed, n_updates, 4)
    likeness = np.array([[cosine(one, other) for other in updates.astype(float)] for one in updates.astype(float)])
    halves = complete_linkage(1.0 - likeness, lambda groups, _nearest: len(groups) == 2)

    def gap(first: list[int]) -> float:
        across = max(likeness[one][other] for one in first for other in range(n_updates) if other not in first)
        return math.sqrt(max(0.0, 1.0 - across) / 2.0)

    is_second, found = bipartition(updates)

    assert sorted([np.flatnonzero(~is_second).tolist(), np.flatnonzero(is_second).tolist()]) == halves
    assert found == pytest.approx(gap(halves[0]), abs=1e-6)
    cuts = [list(some) for size in range(1, n_updates) for some in combinations(range(n_updates), size)]
    assert found <= max(gap(cut) for cut in cuts) + 1e-6


# ---- Auxo (METHODS.md 3.3) -------------------------------------------------------------------------------------------


@given(seed=SEEDS, n_participants=st.integers(2, 8))
def test_auxo_rewards_participants_by_their_distance_from_the_known_ones(seed: int, n_participants: int) -> None:
    features = drawn(seed, n_participants, 5).astype(np.float64)
    rng = np.random.default_rng(seed)
    scores = CohortScores(n_participants)
    scores.lean(np.arange(n_participants), 0, rng.integers(0, 2, n_participants))
    scores.split(0)
    before, everyone = scores.score.copy(), np.arange(n_participants)
    known = [one for one in range(n_participants) if one in scores.known(everyone, 0)]
    centered = [row - features.mean(axis=0) for row in features]
    inner = center_products(products(features.astype(np.float32), features.astype(np.float32)))

    went_on = reward_likeness(scores, everyone, 0, inner=inner, base_reward=5.0)

    assert went_on == (len(known) >= 2)
    if not went_on:
        assert (scores.score == before).all()
        return
    middle = sum(centered[one] for one in known) / len(known)
    apart = [math.dist(row, middle) for row in centered]
    mean = sum(apart) / len(apart)
    scale = mean + math.sqrt(sum((one - mean) ** 2 for one in apart) / len(apart))
    rewards = [(5.0 - 5.0 * one / scale) * len(known) / n_participants for one in apart]
    assert (scores.score[:, 0] - before[:, 0]).tolist() == pytest.approx(rewards, abs=1e-4)
    assert (scores.score[:, 1] == before[:, 1]).all(), "other cohorts' scores stay"


# ---- FlexCFL (METHODS.md 2.3) ----------------------------------------------------------------------------------------


@given(seed=SEEDS, n_updates=st.integers(2, 6), k=st.integers(1, 4))
def test_flexcfl_compares_updates_by_their_cosines_with_singular_vectors(seed: int, n_updates: int, k: int) -> None:
    updates = drawn(seed, n_updates, 7)
    vectors = np.linalg.svd(updates.astype(np.float64), full_matrices=False)[2]
    expected = np.zeros((n_updates, k))
    for row in range(n_updates):
        for column in range(min(k, n_updates)):
            expected[row][column] = abs(cosine(updates[row].astype(float), vectors[column]))

    assert np.allclose(np.abs(decomposed_cosines(updates, k)), expected, atol=1e-3)


@given(seed=SEEDS, n_groups=st.integers(2, 4))
def test_flexcfl_moves_a_client_to_the_nearest_direction_and_groups_pull_each_other(seed: int, n_groups: int) -> None:
    updates, directions = drawn(seed, 5, 6), drawn(seed + 1, n_groups, 6)
    nearest = []
    for one in updates.astype(np.float64):
        apart = [((1.0 - cosine(one, directions[at].astype(np.float64))) / 2.0, at) for at in range(n_groups)]
        nearest.append(min(apart)[1])
    models, eta = drawn(seed + 2, n_groups, 6).astype(np.float64), 0.3
    pulled = []
    for group in range(n_groups):
        others = [models[other] for other in range(n_groups) if other != group]
        lengths = [math.sqrt(float(one @ one)) for one in others]
        total = models[group] + eta * sum(one / length for one, length in zip(others, lengths, strict=True))
        pulled.append(total / (1.0 + eta * sum(1.0 / length for length in lengths)))

    assert cosines(updates, directions).argmax(axis=1).tolist() == nearest
    assert np.allclose(pull_together(models.astype(np.float32), eta, 6), pulled, atol=1e-5)


# ---- Oort (METHODS.md 9.2) -------------------------------------------------------------------------------------------


@given(seed=SEEDS, n_tried=st.integers(1, 9), n_slots=st.integers(1, 5), cutoff=st.sampled_from([0.05, 0.7, 1.0]))
def test_oort_draws_by_score_among_those_above_the_cut(seed: int, n_tried: int, n_slots: int, cutoff: float) -> None:
    rng = np.random.default_rng(seed)
    utility, seconds = rng.uniform(1, 9, n_tried), rng.uniform(1, 9, n_tried)
    last, now, preferred, quantile = rng.integers(1, 20, n_tried).astype(np.float64), 21, 4.0, 0.9
    highest = sorted(utility)[min(int(n_tried * quantile), n_tried - 1)]
    least, greatest = 0.999 * min(utility), max(utility)
    scores = []
    for one in range(n_tried):
        score = (min(utility[one], highest) - least) / (greatest - least)
        score += math.sqrt(0.1 * math.log(now) / last[one])
        if seconds[one] > preferred:
            score *= (preferred / seconds[one]) ** 2
        scores.append(score)
    # The cut is the score at rank n_slots times the cutoff; without a wider pool, at least n_slots stay in.
    ranked = sorted(scores, reverse=True)
    cut = min(ranked[min(n_slots, n_tried - 1)] * cutoff, ranked[min(n_slots, n_tried) - 1])
    weights = [score if score >= cut else 0.0 for score in scores]

    found = (statistical_scores(utility, quantile) + staleness_bonus(last, now, 0.1)) * speed_factors(
        seconds, preferred, 2.0
    )
    chances = exploitation_chances(found, n_slots, cutoff=cutoff, pool=1.0)

    assert found.tolist() == pytest.approx(scores)
    assert chances.tolist() == pytest.approx([weight / sum(weights) for weight in weights])
    assert chances.sum() == pytest.approx(1.0)
