"""How many clients sent something beside trained models, and when: reports, and answers to the guard."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fielding._typing import Json
from fielding.federation.ledger import Ledger
from fielding.methods.guard import MOST_JUDGES
from fielding.records.logs import read_lines
from fielding.records.run_checkpoint import LEDGER, load_run
from fielding.records.run_folder import EVENTS, ROUNDS, newest_checkpoint
from fielding.reporting.numbers.run_summary import count_joined


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What clients of a run sent beside trained models.

    Parameters
    ----------
    n_client_rounds
        Clients times rounds.
    n_reports, n_joins
        Reports, and those of them by which a client joined: nobody can be in a cluster unheard.
    most_judged
        Answers to the guard, at most. Clients whose errors nothing explains are asked as well, but they reported in the
        same round.
    beside_bytes
        Bytes of reports and answers, from the ledger.
    """

    n_client_rounds: int
    n_reports: int
    n_joins: int
    most_judged: int
    beside_bytes: int

    @property
    def silent_share(self) -> float:
        """Share of client-rounds in which nothing but trained models was sent, joining counted as sending.

        Never too good: who reported and answered the guard in the same round counts twice.
        """
        return 1.0 - (self.n_reports + self.most_judged) / self.n_client_rounds


def traffic_of(folder: Path) -> Traffic:
    """Return the traffic of a run of Fielding that is whole."""
    end = load_run(newest_checkpoint(folder))
    arrays = {name.removeprefix(LEDGER): value for name, value in end.arrays.items() if name.startswith(LEDGER)}
    ledger = Ledger.restored(arrays)
    rounds, events = list(read_lines(folder / ROUNDS)), list(read_lines(folder / EVENTS))
    return Traffic(
        n_client_rounds=len(end.client_ids) * len(rounds),
        n_reports=sum(int(str(row["n_reports"])) for row in rounds),
        n_joins=sum(count_joined(event) for event in events),
        most_judged=most_judged(events),
        beside_bytes=int(ledger.client_bytes_up("report").sum() + ledger.client_bytes_up("probe").sum()),
    )


def most_judged(events: Iterable[Mapping[str, Json]]) -> int:
    """Return how many answers a guard got at most.

    An event has a note of it whenever clients were asked. The number in the note is of verdicts that still count, of
    which old ones count less, so it does not add up; the most that are asked at a time do.

    Examples
    --------
    >>> most_judged([{"guard": {"n_judged": 10}}, {"fired": True}, {"guard": {"n_judged": 15}}]) == 2 * MOST_JUDGES
    True
    """
    return MOST_JUDGES * sum("guard" in event for event in events)
