"""`fielding privacy`: what private reports have told of a sample at most, by the ledger of a run or a device."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from fielding._typing import Json
from fielding.cli.console import say, say_json, say_table
from fielding.cli.options import JsonOutput
from fielding.client.privacy.ledger import LEDGER, LedgerFile, read_ledger
from fielding.errors import InputError
from fielding.reporting.formatting import plain

MOST_ROUNDS = 20  # rounds that the table lists


def privacy(
    run: Annotated[
        Path, typer.Argument(help="The folder of a run, the ledger of a device, or a config (.toml) to plan with.")
    ],
    client: Annotated[str | None, typer.Option("--client", help="Tell the reports of this client alone.")] = None,
    as_json: JsonOutput = False,
) -> None:
    """Tell what private reports have told of a sample at most, which client told most, and what was sent when.

    Any window of rounds counts, not only the last one; a line of the ledger that a crash cut short counts as a report.

    Of a config with `privacy.mode = "record"`, tell what to expect of it: clients of its trace report for half, once
    and twice its epsilon and several reports per window, and nothing is trained.
    """
    if run.suffix == ".toml":
        _plan(run, as_json=as_json)
        return
    path = run / LEDGER if run.is_dir() else run
    if not path.exists():
        raise InputError(f'{run} holds no {LEDGER}; give the folder of a run with privacy.mode = "record"')
    ledger = read_ledger(path)
    if not ledger.rules:
        raise InputError(f"{path} holds no rule of private reports; give the folder of a run that reported privately")
    record = describe_ledger(ledger, client)
    if as_json:
        say_json(record)
        return
    reports, rule = record["reports"], ledger.rules[-1]
    say(f"epsilon per window  {plain(record['epsilon'])} ({rule['reports']} reports in {rule['window']} rounds)")
    say(f"spent at most       {plain(record['epsilon_spent'])} by client {record['worst_client']}")
    say(f"reports             {record['n_reports']} of {record['n_clients']} clients")
    if record["n_torn"]:
        say(f"cut short           {record['n_torn']} lines by a crash; they count as reports")
    if isinstance(reports, list):
        rows = [
            [str(one["round"]), str(one["reports"]), plain(one["epsilon"])] for one in reports if isinstance(one, dict)
        ]
        title = f"The last {MOST_ROUNDS} rounds with reports" if len(rows) > MOST_ROUNDS else "Rounds with reports"
        say_table(title, [["round", "reports", "epsilon of each"], *rows[-MOST_ROUNDS:]])


def _plan(path: Path, *, as_json: bool) -> None:
    """Tell how often clients would be where their data say, by epsilon and reports per window."""
    from fielding.config.reader import read_config
    from fielding.simulation.privacy_plan import plan_privacy

    config = read_config(path)
    plan = plan_privacy(config)
    wanted = float(str(config.privacy.epsilon))
    if as_json:
        record: dict[str, Json] = {
            "clients": plan.n_clients,
            "clusters": plan.n_clusters,
            "samples_per_window": plan.n_samples,
            "labels": plan.n_labels,
            "window": plan.window,
            "unmoved": plan.unmoved,
            "right": [{"epsilon": one, "reports_per_window": m, "share": n} for (one, m), n in plan.right.items()],
            "suggested_reports_per_window": plan.suggest(wanted),
        }
        say_json(record)
        return
    say(f"{plan.n_clients} clients in {plan.n_clusters} clusters, {plan.n_labels} labels")
    say(f"the median window has {plan.n_samples} samples of {plan.window} rounds")
    tried = sorted({m for _, m in plan.right})
    rows = [
        [plain(epsilon), *(f"{plan.right[epsilon, m]:.0%}" for m in tried)]
        for epsilon in sorted({epsilon for epsilon, _ in plan.right})
    ]
    say_table("In the cluster that exact counts say", [["epsilon", *(f"m = {m}" for m in tried)], *rows])
    say(f"without any report after the start: {plan.unmoved:.0%}")
    say(f"for epsilon {plain(wanted)}: reports_per_window = {plan.suggest(wanted)}")


def describe_ledger(ledger: LedgerFile, client: str | None = None) -> dict[str, Json]:
    """Return what people want to know of a ledger, as plain values; with a client of its reports alone."""
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
        "reports_per_window": rule["reports"],
        "window": rule["window"],
        "epsilon_spent": float(spent[worst]) if worst is not None else 0.0,
        "worst_client": worst,
        "n_clients": len(spent),
        "n_reports": len(spendings),
        "n_torn": ledger.n_open + sum(one.is_torn for one in spendings),
        "reports": [{"round": at, "reports": counted[at], "epsilon": float(most[at])} for at in sorted(counted)],
    }
