import numpy as np
import pytest

import fielding.client.representation.projection as projection_module
from fielding._typing import Matrix
from fielding.client.representation import Seen
from fielding.client.representation.gradient import Gradient, HeadGradient
from fielding.errors import InputError
from fielding.rng import stream


def seen_of(sizes: list[int], *, n_classes: int = 3, n_features: int = 4, n_body: int = 2) -> Seen:
    """Return samples with the gradient of their summed loss worked out sample by sample; some have no label."""
    rng, n_samples = stream(0, "gradient", *sizes), sum(sizes)
    labels = rng.integers(-1, n_classes, n_samples)
    features = rng.standard_normal((n_samples, n_features)).astype(np.float32)
    scores = rng.standard_normal((n_samples, n_classes)).astype(np.float32)
    n_head = n_classes * (n_features + 1)

    def gradients() -> Matrix:
        sums = np.zeros((len(sizes), n_body + n_head))
        for at, owner in enumerate(np.repeat(np.arange(len(sizes)), sizes)):
            if labels[at] >= 0:
                chances = np.exp(scores[at].astype(np.float64)) / np.exp(scores[at].astype(np.float64)).sum()
                chances[labels[at]] -= 1.0
                sums[owner] += np.concatenate([np.full(n_body, 7.0), np.outer(chances, features[at]).ravel(), chances])
        return sums

    return Seen(
        labels=labels,
        features=features,
        scores=scores,
        sizes=np.array(sizes, dtype=np.int64),
        gradients=gradients,
        n_head=n_head,
    )


@pytest.mark.parametrize("dims", [0, 5, 256])
@pytest.mark.parametrize("normalize", [True, False])
def test_closed_form_equals_the_backward_pass(dims: int, normalize: bool) -> None:
    seen = seen_of([5, 0, 1, 9])
    closed, backward = HeadGradient(dims=dims, normalize=normalize), Gradient(dims=dims, normalize=normalize)
    tallies = closed.tally(seen)

    assert np.allclose(tallies, backward.tally(seen), rtol=1e-12, atol=1e-12)
    assert np.allclose(closed.vectors(tallies, tallies[0]), backward.vectors(tallies, tallies[0]))
    assert closed.scale(tallies[0]) == backward.scale(tallies[0])


def test_closed_form_equals_autograd() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an extra")
    rng = stream(0, "autograd")
    features, labels = rng.standard_normal((7, 4)).astype(np.float32), rng.integers(0, 3, 7)
    head = torch.nn.Linear(4, 3)
    scores = head(torch.from_numpy(features))
    torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels), reduction="sum").backward()
    seen = Seen(labels=labels, features=features, scores=scores.detach().numpy(), sizes=np.array([7]))

    tally = HeadGradient(dims=0).tally(seen)[0]

    assert np.allclose(tally[1:], np.concatenate([head.weight.grad.numpy().ravel(), head.bias.grad.numpy()]), atol=1e-5)


def test_closed_form_equals_the_backward_pass_when_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection_module, "DENSE_NUMBERS", 10)
    seen = seen_of([5, 2])

    assert np.allclose(HeadGradient(dims=4).tally(seen), Gradient(dims=4).tally(seen), rtol=1e-12, atol=1e-12)


def test_full_gradient_holds_the_body_too() -> None:
    seen = seen_of([4])
    n_labelled = int((seen.labels >= 0).sum())
    tally = Gradient(layer="full", dims=0).tally(seen)[0]

    assert tally.size == 1 + 2 + seen.n_head
    assert tally[:3].tolist() == [n_labelled, 7 * n_labelled, 7 * n_labelled]


def test_direction_has_length_one_and_a_one_behind_it() -> None:
    vectors = Gradient().vectors(np.array([[2.0, 6.0, 8.0], [0.0, 0.0, 0.0]]), np.zeros(3))

    assert np.allclose(vectors, [[0.6, 0.8, 1.0], [0.0, 0.0, 0.0]])


def test_gradient_itself_is_a_mean() -> None:
    assert Gradient(normalize=False).vectors(np.array([[2.0, 6.0, 8.0]]), np.zeros(3)).tolist() == [[3, 4, 1]]


def test_gradient_that_vanishes_is_not_silence() -> None:
    assert HeadGradient().vectors(np.array([[2.0, 0.0, 0.0]]), np.zeros(3)).tolist() == [[0, 0, 1]]


def test_scale_is_the_diameter_of_directions_or_the_length_for_everybody() -> None:
    assert Gradient().scale(np.array([2.0, 6.0, 8.0])) == 2.0
    assert Gradient(normalize=False).scale(np.array([2.0, 6.0, 8.0])) == 5.0
    assert HeadGradient(normalize=False).scale(np.zeros(3)) == 1.0


@pytest.mark.parametrize("n_head", [0, 99])
def test_model_without_a_known_last_layer_is_told(n_head: int) -> None:
    scores = np.zeros((1, 2), dtype=np.float32)
    seen = Seen(
        labels=np.array([0]),
        features=scores,
        scores=scores,
        sizes=np.array([1]),
        gradients=lambda: np.ones((1, 8)),
        n_head=n_head,
    )

    with pytest.raises(InputError, match=f"last layer of {n_head} parameters among 8; take layer = 'full'"):
        Gradient().tally(seen)


def test_gradients_of_clients_without_labels_are_no_news() -> None:
    scores = np.zeros((1, 2), dtype=np.float32)
    seen = Seen(
        labels=np.array([-1]),
        features=scores,
        scores=scores,
        sizes=np.array([1]),
        gradients=lambda: np.ones((1, 8)),
        n_head=6,
    )

    assert not Gradient().tally(seen).any()
