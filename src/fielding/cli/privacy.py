"""`fielding privacy`: what private reports or noised sums have told at most, by the ledger of a run or a device."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fielding._typing import Json
from fielding.cli.console import say, say_json, say_table
from fielding.cli.options import JsonOutput
from fielding.client.privacy.ledger import LEDGER, read_ledger
from fielding.client.privacy.rule import REPORT
from fielding.client.privacy.sums import SUMS
from fielding.client.privacy.training import FOREVER, MODELS
from fielding.errors import InputError
from fielding.reporting.formatting import plain
from fielding.reporting.numbers.budget import describe_ledger, describe_sums

if TYPE_CHECKING:
    from fielding.config.keys import Config

PLAN = "plan"
MOST_ROUNDS = 20  # rounds that the table lists


def privacy(
    run: Annotated[Path, typer.Argument(help="The folder of a run, the ledger of a device, or the word plan.")],
    config: Annotated[Path | None, typer.Argument(help="After plan: the config to plan with.")] = None,
    client: Annotated[str | None, typer.Option("--client", help="Tell the reports of this client alone.")] = None,
    as_json: JsonOutput = False,
) -> None:
    """Tell what private reports and training have told at most, which client told most, and what was sent when.

    Any window of rounds counts, not only the last one; a line of the ledger that a crash cut short counts as a report.

    `fielding privacy plan CONFIG` tells what to expect of a config: clients of its trace report for half, once and
    twice its epsilon, with `privacy.mode = "record"` also for several reports per window, and nothing is trained.

    With `privacy.mode = "client"` it is about whole clients, and all have told the same.
    """
    if config is not None:
        if str(run) != PLAN:
            raise InputError(f"{config} is one too many; give the folder of a run, or {PLAN} and a config")
        _plan_with(config, as_json=as_json)
        return
    if run.suffix == ".toml" or (str(run) == PLAN and not run.exists()):
        raise InputError(f"to plan with a config, type fielding privacy plan {'CONFIG' if str(run) == PLAN else run}")
    path = run / LEDGER if run.is_dir() else run
    if not path.exists():
        raise InputError(f"{run} holds no {LEDGER}; give the folder of a run with [privacy]")
    ledger = read_ledger(path)
    if not ledger.rules:
        raise InputError(f"{path} holds no rule of private reports; give the folder of a run that reported privately")
    found = {
        what: describe_sums(ledger.of(what)) if what == SUMS else describe_ledger(ledger.of(what), client)
        for what in ledger.kinds()
    }
    if as_json:
        say_json({**found.pop(REPORT, {}), **found.pop(SUMS, {}), **found})
        return
    for what, record in found.items():
        if what == SUMS:
            _say_sums(record)
        else:
            _say_kind(what, record)


def _say_kind(what: str, record: dict[str, Json]) -> None:
    """Tell what one kind of thing has told: reports, trainings, models."""
    names = {REPORT: "reports", "training": "trainings", MODELS: "rounds"}
    name, reports, is_lasting = names.get(what, what), record["reports"], record["window"] == FOREVER
    said = f"{record['reports_per_window']} {name} in " + ("all" if is_lasting else f"{record['window']} rounds")
    delta = f" at delta {plain(record['delta'])}" if "delta" in record else ""
    say(f"epsilon per {'run   ' if is_lasting else 'window'}  {plain(record['epsilon'])}{delta} ({said})")
    say(f"spent at most       {plain(record['epsilon_spent'])} by client {record['worst_client']}")
    say(f"{name:<19} {record['n_reports']}" + ("" if what == MODELS else f" of {record['n_clients']} clients"))
    if record["n_torn"]:
        say(f"cut short           {record['n_torn']} lines by a crash; they count as reports")
    if isinstance(reports, list):
        is_split = what == REPORT and "delta" not in record  # of Gaussian noise, the first reports tell the most
        rows = [
            [str(one["round"]), str(one["reports"]), *([plain(one["epsilon"])] if is_split else [])]
            for one in reports
            if isinstance(one, dict)
        ]
        head = ["round", name, *(["epsilon of each"] if is_split else [])]
        made = "models" if what == MODELS else name
        title = f"The last {MOST_ROUNDS} rounds with {made}" if len(rows) > MOST_ROUNDS else f"Rounds with {made}"
        say_table(title, [head, *rows[-MOST_ROUNDS:]])


def _say_sums(record: dict[str, Json]) -> None:
    """Tell what noised sums have told of every client."""
    say(f"epsilon per client  {plain(record['epsilon'])} in all, but for a probability of {plain(record['delta'])}")
    say(f"spent               {plain(record['epsilon_spent'])} by {record['n_releases']} of {record['planned']} sums")
    if (id_epsilon := record["id_epsilon"]) is not None:
        often = "" if record["id_choices"] is None else f", up to {record['id_choices']} times in a run"
        say(f"cluster asked for   {plain(id_epsilon)} each time{often}, beside that")
    else:
        say("cluster asked for   in clear: the server knows which center each client is nearest to")
    if record["n_torn"]:
        say(f"cut short           {record['n_torn']} lines by a crash; they count as sums")
    if isinstance(record["rounds"], list):
        say(f"rounds with sums    {', '.join(str(one) for one in record['rounds'])}")


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


def _plan_with(path: Path, *, as_json: bool) -> None:
    from fielding.config.reader import read_config
    from fielding.engine.plugins import CLIENT

    config = read_config(path)
    plan = _plan_sums if config.privacy.mode == CLIENT else _plan
    plan(config, as_json=as_json)


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
    if plan.right[wanted, plan.suggest(wanted)] <= plan.unmoved:
        say("groups that nobody leaves would be right as often: at this epsilon, reports move clients for nothing")
