"""What private reports and private training have told, by the ledger of a run."""

from collections import Counter
from fractions import Fraction

from fielding._typing import Json
from fielding.client.privacy.gaussian import epsilon_of_rho
from fielding.client.privacy.ledger import LedgerFile
from fielding.errors import InputError


def describe_sums(ledger: LedgerFile) -> dict[str, Json]:
    """Return what people want to know of noised sums, as plain values."""
    rule, delta = ledger.rules[-1], float(str(ledger.rules[-1]["delta"]))
    rho = sum((one.epsilon for one in ledger.spendings), Fraction(0))
    return {
        "epsilon": float(str(rule["epsilon"])),
        "delta": delta,
        "id_epsilon": rule.get("id_epsilon"),
        "id_choices": rule.get("choices"),
        "epsilon_spent": epsilon_of_rho(float(rho), delta),
        "rho_spent": float(rho),
        "n_releases": len(ledger.spendings),
        "planned": rule["releases"],
        "n_torn": ledger.n_open + sum(one.is_torn for one in ledger.spendings),
        "rounds": [one.round_index for one in ledger.spendings],
    }


def describe_ledger(ledger: LedgerFile, client: str | None = None) -> dict[str, Json]:
    """Return what people want to know of a ledger of one kind, as plain values; with a client of its reports alone."""
    spendings = [one for one in ledger.spendings if client is None or str(one.client) == client]
    if client is not None and not spendings:
        raise InputError(f"client {client} has reported nothing; leave --client out to see those that have")
    rule = ledger.rules[-1]
    spent = ledger.most_spent()
    if client is not None:
        spent = {name: most for name, most in spent.items() if str(name) == client}
    worst = max(spent, key=lambda name: spent[name], default=None)
    counted, most = Counter(one.round_index for one in spendings), {one.round_index: one.epsilon for one in spendings}
    return {
        "epsilon": float(Fraction(str(rule["epsilon"]))),
        **({"delta": float(Fraction(str(rule["delta"])))} if "delta" in rule else {}),
        "reports_per_window": rule["reports"],
        "window": rule["window"],
        "epsilon_spent": spent[worst] if worst is not None else 0.0,
        "worst_client": worst,
        "n_clients": len(spent),
        "n_reports": len(spendings),
        "n_torn": ledger.n_open + sum(one.is_torn for one in spendings),
        # Of Gaussian noise no number of epsilon belongs to one report: the first of them tell the most.
        "reports": [
            {"round": at, "reports": counted[at], **({} if "noise" in rule else {"epsilon": float(most[at])})}
            for at in sorted(counted)
        ],
    }


def round_words(rounds: list[int], most: int = 8) -> str:
    """Return rounds, rising, in few words: the last stretches of them.

    Examples
    --------
    >>> round_words([0, 1, 2, 5, 7, 8]), round_words([0, 2, 4], most=2)
    ('0 to 2, 5, 7 to 8', '..., 2, 4')
    """
    stretches: list[list[int]] = []
    for one in rounds:
        if stretches and stretches[-1][-1] == one - 1:
            stretches[-1] = [stretches[-1][0], one]
        else:
            stretches.append([one])
    words = [f"{each[0]} to {each[-1]}" if len(each) > 1 else str(each[0]) for each in stretches]
    return ", ".join(words if len(words) <= most else ["...", *words[-most:]])
