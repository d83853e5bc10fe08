"""`fielding privacy`: what private reports or noised sums have told at most, by the ledger of a run or a device."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding._typing import Json
from fielding.cli.console import say, say_json, say_table
from fielding.cli.options import JsonOutput
from fielding.client.privacy.ledger import LEDGER, LedgerFile, read_ledger
from fielding.errors import InputError
from fielding.reporting.formatting import plain

if TYPE_CHECKING:
    from fielding.config.keys import Config

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

    Of a config, tell what to expect of it: clients of its trace report for half, once and twice its epsilon, with
    `privacy.mode = "record"` also for several reports per window, and nothing is trained.

    With `privacy.mode = "client"` it is about whole clients, and all have told the same.
    """
    if run.suffix == ".toml":
        from fielding.config.reader import read_config
        from fielding.engine.plugins import CLIENT

        config = read_config(run)
        plan = _plan_sums if config.privacy.mode == CLIENT else _plan
        plan(config, as_json=as_json)
        return
    path = run / LEDGER if run.is_dir() else run
    if not path.exists():
        raise InputError(f"{run} holds no {LEDGER}; give the folder of a run with [privacy]")
    ledger = read_ledger(path)
    if not ledger.rules:
        raise InputError(f"{path} holds no rule of private reports; give the folder of a run that reported privately")
    if ledger.rules[-1].get("mode") == "client":
        _tell_sums(ledger, as_json=as_json)
        return
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


def _tell_sums(ledger: LedgerFile, *, as_json: bool) -> None:
    """Tell what noised sums have told of every client."""
    record = describe_sums(ledger)
    if as_json:
        say_json(record)
        return
    say(f"epsilon per client  {plain(record['epsilon'])} in all, but for a probability of {record['delta']:g}")
    say(f"spent               {plain(record['epsilon_spent'])} by {record['n_releases']} of {record['planned']} sums")
    if (id_epsilon := record["id_epsilon"]) is not None:
        say(f"cluster asked for   {plain(id_epsilon)} each time, beside that")
    else:
        say("cluster asked for   in clear: the server knows which center each client is nearest to")
    if record["n_torn"]:
        say(f"cut short           {record['n_torn']} lines by a crash; they count as sums")
    say(f"rounds with sums    {', '.join(str(one.round_index) for one in ledger.spendings)}")


def describe_sums(ledger: LedgerFile) -> dict[str, Json]:
    """Return what people want to know of a ledger of noised sums, as plain values."""
    from fielding.client.privacy.gaussian import epsilon_of

    rule, delta = ledger.rules[-1], float(str(ledger.rules[-1]["delta"]))
    rho = sum((one.epsilon for one in ledger.spendings), Fraction(0))
    return {
        "epsilon": float(str(rule["epsilon"])),
        "delta": delta,
        "id_epsilon": rule.get("id_epsilon"),
        "epsilon_spent": epsilon_of(float(rho), delta),
        "rho_spent": float(rho),
        "n_releases": len(ledger.spendings),
        "planned": rule["releases"],
        "n_torn": ledger.n_open + sum(one.is_torn for one in ledger.spendings),
    }


def _plan_sums(config: "Config", *, as_json: bool) -> None:
    """Tell how far clusters would be those of sums without noise, by epsilon."""
    from fielding.simulation.privacy_plan import plan_sums

    plan = plan_sums(config)
    if as_json:
        record: dict[str, Json] = {
            "clients": plan.n_clients,
            "labels": plan.n_labels,
            "releases": plan.n_releases,
            "share_noise": plan.share_noise,
            "count_noise": plan.count_noise,
            "agreement": [
                {"epsilon": epsilon, "ari": one, "clusters": plan.n_clusters[epsilon]}
                for epsilon, one in plan.agreement.items()
            ],
        }
        say_json(record)
        return
    say(f"{plan.n_clients} clients, {plan.n_labels} labels, {plan.n_releases} noised sums in a run")
    say(f"noise on a sum: {plan.share_noise:.1f} clients on a label, {plan.count_noise:.1f} on a number of clients")
    rows = [[plain(one), str(plan.n_clusters[one]), f"{ari:.2f}"] for one, ari in plan.agreement.items()]
    say_table("Clusters as without noise (ARI)", [["epsilon", "clusters", "ARI"], *rows])


def _plan(config: "Config", *, as_json: bool) -> None:
    """Tell how often clients would be where their data say, by epsilon and reports per window."""
    from fielding.simulation.privacy_plan import plan_privacy

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
