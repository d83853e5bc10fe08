import numpy as np
import pytest

from fielding.errors import OptionError
from fielding.federation.pace import Memory, PaceStep, pace_named
from fielding.federation.pace.restarts import Restarts

MODEL = np.zeros(1, dtype=np.float32)
NEVER = 1e9
"""Standard errors that no loss exceeds."""


def states_after(pace: Restarts, losses: np.ndarray) -> list[Memory]:
    """Return the state before the first round and after each."""
    states: list[Memory] = [pace.memory(1)]
    for round_index, loss in enumerate(losses.tolist()):
        step = PaceStep(before=MODEL, after=MODEL, loss=loss, has_new_data=False, round_index=round_index)
        states.append(pace.observe(step, states[-1]))
    return states


def alarms_of(pace: Restarts, losses: np.ndarray) -> list[int]:
    return [index for index, state in enumerate(states_after(pace, losses)[1:]) if state["restarted"][0]]


def steady_noise(seed: int, n_rounds: int) -> np.ndarray:
    return 1.0 + 0.1 * np.random.default_rng(seed).standard_normal(n_rounds)


def test_blocks_double_up_to_the_longest_horizon() -> None:
    states = states_after(Restarts(longest=8, errors=NEVER), np.ones(31))

    orders = [int(state["block"][0]) for state in states]

    assert orders == [0] + [1] * 2 + [2] * 4 + [3] * 8 + [3] * 8 + [3] * 8 + [3]


def test_an_instance_of_the_whole_block_always_lives_and_none_beyond_its_horizon() -> None:
    for state in states_after(Restarts(errors=NEVER), np.ones(200)):
        order, position = state["block"].astype(int).tolist()
        assert state["left"][order] == 2**order - position
        assert (state["left"][order + 1 :] == 0.0).all()
        for shorter in range(order):
            left = int(state["left"][shorter])
            assert left in (0, 2**shorter - position % 2**shorter)


def test_shorter_instances_are_placed_at_the_rate_of_the_square_root_of_their_share() -> None:
    counts, n_blocks = np.zeros(4), 0
    for seed in range(60):
        states = states_after(Restarts(longest=8, errors=NEVER, seed=seed), np.ones(15 + 8 * 10 - 1))[15:]
        n_blocks += 10
        lives = np.array([state["left"] for state in states])
        begins = lives == 2.0 ** np.arange(4)
        counts += begins.sum(axis=0)

    chances = np.array([8, 4, 2, 1]) * n_blocks
    expected = 2.0 ** (-0.5 * np.array([3, 2, 1, 0]))
    shares = counts / chances
    assert shares[3] == 1.0
    assert (np.abs(shares - expected) <= 4.0 * np.sqrt(expected * (1.0 - expected) / chances)).all()


def test_the_shortest_instance_alive_sets_the_rate() -> None:
    pace = Restarts(errors=NEVER)

    for state in states_after(pace, np.ones(150)):
        shortest = int(np.flatnonzero(state["left"])[0])
        assert pace.factor(state) == pytest.approx(1.0 / np.sqrt(2.0**shortest))


def test_rates_of_long_blocks_are_lower_on_average_than_those_of_short_ones() -> None:
    means = []
    for longest in (1, 4, 64):
        pace = Restarts(longest=longest, errors=NEVER)
        means.append(np.mean([pace.factor(state) for state in states_after(pace, np.ones(300))]))

    assert means[0] == 1.0
    assert means[0] > means[1] > means[2]


def test_the_seed_places_the_horizons() -> None:
    def lives(seed: int) -> np.ndarray:
        return np.array([state["left"] for state in states_after(Restarts(errors=NEVER, seed=seed), np.ones(100))])

    assert (lives(1) == lives(1)).all()
    assert (lives(1) != lives(2)).any()


def test_steady_noise_raises_at_most_one_false_alarm_in_five_blocks_of_64_rounds() -> None:
    n_alarms = sum(len(alarms_of(Restarts(seed=seed), steady_noise(seed, 256))) for seed in range(25))

    assert n_alarms / (25 * 256 / 64) < 0.2


def test_a_falling_loss_raises_hardly_any() -> None:
    falling = 2.0 * np.exp(-np.arange(256) / 40.0)

    n_alarms = sum(len(alarms_of(Restarts(seed=seed), falling + steady_noise(seed, 256) / 2)) for seed in range(10))

    assert n_alarms <= 3


def test_a_jump_of_the_loss_is_mostly_seen_within_ten_rounds() -> None:
    n_seen = 0
    for seed in range(40):
        at = 75 + seed
        losses = steady_noise(seed, at + 10)
        losses[at:] += 0.5
        n_seen += any(alarm >= at for alarm in alarms_of(Restarts(seed=seed), losses))

    assert n_seen >= 32


def test_an_alarm_brings_back_the_full_rate_and_the_first_state() -> None:
    pace = Restarts()
    losses = steady_noise(1, 60)
    losses[50:] = 5.0
    states = states_after(pace, losses)
    first = next(index for index, state in enumerate(states) if state["restarted"][0])

    assert first == 51
    assert pace.factor(states[first]) == 1.0
    assert all((states[first][name] == rows).all() for name, rows in pace.memory(1).items() if name != "restarted")
    assert not states[first + 1]["restarted"][0]


def test_the_model_starts_over_only_if_asked_to_and_only_once() -> None:
    losses = steady_noise(1, 60)
    losses[50:] = 5.0
    states = states_after(Restarts(), losses)

    assert [Restarts(reset_model=True).restarts(state) for state in states].index(True) == 51
    assert sum(Restarts(reset_model=True).restarts(state) for state in states) == 1
    assert not any(Restarts().restarts(state) for state in states)


@pytest.mark.parametrize("level", [0.0, 0.1, -3.3, 1e-12, 1e9])
def test_a_loss_that_never_changes_is_no_alarm(level: float) -> None:
    assert alarms_of(Restarts(), np.full(200, level)) == []


def test_a_loss_that_changes_in_its_twelfth_digit_is_no_alarm() -> None:
    losses = np.full(100, 0.7)
    losses[85:] *= 1.0 + 1e-12

    assert alarms_of(Restarts(), losses) == []


@pytest.mark.parametrize("born", [63, 63 + 64])
def test_means_and_spreads_are_those_of_numpy_since_the_birth_of_the_instance(born: int) -> None:
    losses = steady_noise(0, born + 40)
    state = states_after(Restarts(errors=NEVER), losses)[-1]

    assert state["count"][6] == 40
    assert state["mean"][6] == pytest.approx(losses[born:].mean())
    assert state["spread"][6] == pytest.approx(40 * losses[born:].var())
    running = losses[born:].cumsum() / np.arange(1, 41)
    assert state["low_mean"][6] == pytest.approx(running[7:].min())
    assert state["low_count"][6] == 8 + running[7:].argmin()


def test_a_loss_that_is_no_number_is_no_measurement() -> None:
    losses = steady_noise(0, 100)
    losses[80] = np.nan
    losses[81] = np.inf

    states = states_after(Restarts(errors=NEVER), losses)

    assert (states[81]["count"][6], states[82]["count"][6], states[83]["count"][6]) == (17.0, 17.0, 18.0)
    assert all(np.isfinite(rows).all() for rows in states[-1].values())


@pytest.mark.parametrize(
    "options", [{"longest": 48}, {"longest": 0}, {"longest": 8.0}, {"errors": 0.0}, {"reset_model": 1}, {"seed": 3}]
)
def test_wrong_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        pace_named("master-fl", dict(options))
