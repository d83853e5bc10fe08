"""What private reports are worth on a trace, before anything is trained: how often clients are where their data say."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fielding._typing import Counts, Floats, Matrix, Membership
from fielding.client.privacy.counts import count_samples, noised_vectors, unit_of
from fielding.client.privacy.geometric import repeatable_words
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.privacy.rule import MOST_EPSILON, PrivacyRule
from fielding.client.privacy.sums import Asked, SumRule, SumSchedule, choose_clusters, grid_steps, parts_of
from fielding.client.report import ReportBatch
from fielding.client.representation.representation import Representation
from fielding.config.keys import Config, PrivacySection
from fielding.coordinator.assignment import clear_moves, nearest_clusters
from fielding.coordinator.coordinator import Coordinator
from fielding.coordinator.points import Points
from fielding.distance import metric_named
from fielding.engine.plugins import RECORD, policy_of, privacy_of, sums_of
from fielding.engine.report_rule import is_own_function, report_rule_of
from fielding.errors import InputError, OptionError, echo
from fielding.federation.evaluation import adjusted_rand_index
from fielding.federation.noised_sums import NoisedSums
from fielding.methods.method import MethodSetting
from fielding.methods.private_fielding import PrivateFielding
from fielding.rng import stream
from fielding.runtime.observe import Sight
from fielding.runtime.private_reports import PrivateObserver, count_labels
from fielding.simulation.assembly import Own, Simulation, assemble, simulated_noise
from fielding.traces.sliding import SlidingWindows

REPORTS = (1, 2, 4)  # reports per window that are tried
FACTORS = (0.5, 1.0, 2.0)  # of the config's epsilon
NO_NOISE = 1e-12  # variance of a noise that changes nothing, for grouping as with noise


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyPlan:
    """How often clients are in the cluster that their exact counts of the moment say, over clients and rounds.

    ``right``: by epsilon and reports per window. ``unmoved``: if no client reported after the start. ``n_samples``: of
    the median window at the start. Clusters are those of exact counts at the start, and stay.
    """

    right: dict[tuple[float, int], float]
    unmoved: float
    n_clients: int
    n_clusters: int
    n_samples: int
    n_labels: int
    window: int

    def suggest(self, epsilon: float) -> int:
        """Return the reports per window with which clients are most often right; of equals the fewest."""
        return max((m for one, m in self.right if one == epsilon), key=lambda m: (round(self.right[epsilon, m], 3), -m))


def plan_privacy(config: Config, own: Own | None = None, *, reports: Sequence[int] = REPORTS) -> PrivacyPlan:
    """Let the clients of a config report privately, for half, once and twice its epsilon, and train nothing.

    Raises
    ------
    InputError
        If the config is not private, reports more than labels, or its clients cannot be grouped.
    """
    section = config.coordinator
    report_rule = report_rule_of(section, is_own=is_own_function(section), seed=config.seed)
    rule = privacy_of(config, report_rule)
    if rule is None or config.privacy.epsilon is None:
        raise OptionError('privacy.mode is not "record"; set it, and privacy.epsilon, to see what they are worth')
    if not report_rule.is_label or report_rule.representation is None:
        raise OptionError(
            f"coordinator.representation is {echo(section.representation)}; only reports of labels can be planned: "
            "others need a model that is trained first"
        )
    simulation = assemble(replace(config, privacy=PrivacySection()), own or Own(), n_workers=1)
    simulation.clients.close()
    windows = simulation.clients.windows
    n_rounds = min(config.rounds, 4 * rule.window)
    policy = policy_of(config, kind="vector", metric="l2", noise_variance=NO_NOISE)
    exact = [exact_shares(windows, report_rule.representation, at) for at in range(n_rounds)]
    shares, sizes = exact[0]
    coordinator, speaking = Coordinator(policy), np.flatnonzero(sizes)
    first = ReportBatch(client_ids=speaking.tolist(), representations=shares[speaking], n_samples=sizes[speaking])
    coordinator.update(first)
    if coordinator.clusters is None or len(coordinator.clusters.ids) < 2:
        raise InputError("clients are one group at the start: there is nothing that reports could tell apart")
    centers = coordinator.clusters.centers
    truth = [np.where(sizes > 0, place(rows, centers), -1) for rows, sizes in exact]

    def right(member: Sequence[Membership]) -> float:
        hits = [float((one == other)[other >= 0].mean()) for one, other in zip(member, truth, strict=True)]
        return float(np.mean(hits))

    found: dict[tuple[float, int], float] = {}
    for factor in FACTORS:
        for m in reports:
            epsilon = factor * config.privacy.epsilon
            tried = replace(config.privacy, mode=RECORD, epsilon=epsilon, reports_per_window=min(m, rule.window))
            one = privacy_of(replace(config, privacy=tried), report_rule)
            if one is not None:
                told = reported_places(windows, report_rule.representation, one, centers, n_rounds, seed=config.seed)
                found[epsilon, m] = right(told)
    return PrivacyPlan(
        right=found,
        unmoved=right([truth[0]] * n_rounds),
        n_clients=windows.n_clients,
        n_clusters=len(coordinator.clusters.ids),
        n_samples=int(np.median(sizes[speaking])),
        n_labels=windows.n_classes,
        window=rule.window,
    )


def place(rows: Floats, centers: Matrix) -> Membership:
    """Return the nearest of some centers for each row."""
    nobody = np.full(len(rows), -1, dtype=np.int32)
    return nearest_clusters(Points(rows), centers, metric=metric_named("l2"), current=nobody)


def exact_shares(windows: SlidingWindows, representation: Representation, round_index: int) -> tuple[Floats, Counts]:
    """Return what clients would report in a round without noise, and of how many samples."""
    sight = Sight(windows, None)
    rows, sizes = windows.training(round_index).of(np.arange(windows.n_clients))
    sight.show(np.sort(rows))
    counts = count_samples(representation, sight.of(rows, sizes)).astype(np.float64)
    return noised_vectors(representation, counts, sizes, counts.sum(axis=0)), sizes


def reported_places(
    windows: SlidingWindows,
    representation: Representation,
    rule: PrivacyRule,
    centers: Matrix,
    n_rounds: int,
    *,
    seed: int,
) -> list[Membership]:
    """Return in which cluster clients are after each round, by their private reports so far; -1 for none.

    As in a run, a client moves only where its margin exceeds what noise explains.
    """
    client_ids = windows.schedule.client_ids
    observer = PrivateObserver(
        windows,
        representation,
        rule=rule,
        sight=Sight(windows, None),
        ledger=PrivacyLedger(None, rule, is_repeatable=True),
        client_ids=client_ids,
        noise_of=simulated_noise(seed, client_ids),
    )
    member: Membership = np.full(windows.n_clients, -1, dtype=np.int32)
    variance = rule.noise_variance(unit_of(representation))
    found: list[Membership] = []
    for round_index in range(n_rounds):
        due = observer.observe(round_index)
        speaks = due.n_samples > 0
        if speaks.any():
            who, told = due.clients[speaks], due.representations[speaks]
            here, there = member[who], place(told, centers)
            is_clear = clear_moves(
                Points(told),
                centers,
                here,
                there,
                n_samples=due.n_samples[speaks].astype(np.int32),
                noise_variance=variance,
            )
            member[who] = np.where(is_clear, there, here)
        found.append(member.copy())
    return found


# ---- mode client ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SumPlan:
    """How far clusters by noised sums are those by sums without noise, by epsilon.

    ``agreement``: adjusted Rand index over clients, mean over rounds with a sum. ``n_clusters``: that are found.
    ``share_noise``, ``count_noise``: standard deviation of the noise on a sum of shares of a label and on a number of
    clients, in clients, for the config's epsilon.
    """

    agreement: dict[float, float]
    n_clusters: dict[float, int]
    n_clients: int
    n_labels: int
    n_releases: int
    share_noise: float
    count_noise: float


class AnsweringClients:
    """Clients that do nothing but answer sums, at one round at a time."""

    def __init__(self, windows: SlidingWindows, rule: SumRule, *, seed: int) -> None:
        self.round_index, self._windows = 0, windows
        ledger = PrivacyLedger(None, rule, is_repeatable=True)
        self._sums = NoisedSums(rule, ledger, lambda at: repeatable_words(stream(seed, "privacy sums", at)))

    def _counts(self, clients: Counts) -> Counts:
        return count_labels(self._windows, clients, self.round_index)

    def noised_sum(self, asked: Asked, candidates: tuple[Matrix, ...]) -> Counts | None:
        """Return a sum over all clients, with noise."""
        if not self._sums.grant(self.round_index):
            return None
        counts = self._counts(np.arange(self._windows.n_clients))
        return self._sums.noised(parts_of(asked, counts, candidates).sum(axis=0), self.round_index)

    def choose(self, clients: Counts, centers: Matrix) -> Membership:
        """Return the nearest center of clients."""
        return choose_clusters(self._counts(clients), centers)


def plan_sums(config: Config, own: Own | None = None) -> SumPlan:
    """Let the clients of a config answer sums for half, once and twice its epsilon, and train nothing.

    Raises
    ------
    InputError
        If the config asks for no sums, or has too few clients.
    """
    found = sums_of(config)
    if found is None:
        raise OptionError(
            f'privacy.mode "client" with method {config.method.name!r} asks for no sums; set method.name = "fielding"'
        )
    rule, schedule = found
    simulation = assemble(config, own or Own(), n_workers=1)
    simulation.clients.close()
    exact = _follow(simulation, replace(rule, epsilon=float(MOST_EPSILON)), schedule)
    told = {
        factor * rule.epsilon: _follow(simulation, replace(rule, epsilon=factor * rule.epsilon), schedule)
        for factor in FACTORS
    }
    n_labels = simulation.clients.windows.n_classes
    of_shares, of_count = grid_steps(n_labels)
    return SumPlan(
        agreement={
            epsilon: float(np.mean([adjusted_rand_index(one, other) for one, other in zip(rows, exact, strict=True)]))
            for epsilon, rows in told.items()
        },
        n_clusters={epsilon: int(rows[-1].max()) + 1 for epsilon, rows in told.items()},
        n_clients=simulation.clients.windows.n_clients,
        n_labels=n_labels,
        n_releases=schedule.n_releases,
        share_noise=rule.sigma / of_shares,
        count_noise=rule.sigma / of_count,
    )


def _follow(simulation: Simulation, rule: SumRule, schedule: SumSchedule) -> list[Membership]:
    """Return the cluster of each client after each round with a sum, from the first clusters on."""
    windows, seed = simulation.clients.windows, simulation.config.seed
    setting = MethodSetting(
        initial=np.zeros(1, dtype=np.float32),
        client_ids=windows.schedule.client_ids,
        policy=simulation.policy,
        parts=simulation.parts,
        seed=seed,
    )
    method, clients = PrivateFielding(setting, rule=rule, schedule=schedule), AnsweringClients(windows, rule, seed=seed)
    found: list[Membership] = []
    for at in range(schedule.rounds):
        clients.round_index = at
        method.follow(clients)
        if at >= schedule.last_start and schedule.asked_in(at) is not None:
            found.append(method.membership())
    if not found:
        raise InputError(f"a run of {schedule.rounds} rounds is over before clients are grouped; give it more")
    return found
