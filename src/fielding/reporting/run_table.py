"""The figures of a run as rows of words, for the terminal."""

from collections.abc import Mapping
from typing import TypeAlias

from fielding._typing import Json
from fielding.reporting.words import as_time, megabytes, plain

Row: TypeAlias = Mapping[str, Json]

UNTESTED = "none, no client had test samples"
_LABELS = {
    "method": "method",
    "n_rounds": "rounds",
    "final_accuracy": "final accuracy, mean over clients",
    "worst_decile": "of the worst tenth of the clients",
    "final_accuracy_corrected": "corrected to clients' label mixes",
    "worst_decile_corrected": "corrected, of the worst tenth",
    "final_accuracy_tuned": "tuned on clients' own samples",
    "worst_decile_tuned": "tuned, of the worst tenth",
    "final_newest_accuracy": "on the newest interval",
    "final_newest_accuracy_corrected": "on the newest interval, corrected",
    "final_prequential_accuracy": "on the interval to come",
    "final_prequential_accuracy_corrected": "on the interval to come, corrected",
    "final_ari": "agreement with the true groups (ARI)",
    "n_clusters_last": "clusters at the end",
    "n_first_reports": "first reports, to join",
    "n_drift_reports": "reports of drift",
    "moves": "moves one by one",
    "reclusterings": "re-clusterings of all",
}


def run_table(summary: Row) -> list[list[str]]:
    """Return a row for each figure of a run that tells something: its name, its value.

    Parameters
    ----------
    summary
        The content of ``summary.json``.
    """
    figures = {**summary, "n_drift_reports": n_drift_reports(summary)}
    if figures["n_clusters_last"] == 1:
        figures["final_ari"] = None  # one cluster agrees with any truth no better than chance
    rows = [[label, plain(figures[name])] for name, label in _LABELS.items() if figures.get(name) is not None]
    if summary["final_accuracy"] is None:
        rows.insert(2, ["final accuracy", UNTESTED])
    if summary["n_failed"]:
        rows.append(["trainings without a finite model", f"{summary['n_failed']} of {summary['n_trained']}"])
    rows.append(["simulated time", as_time(float(str(summary["time_s"])))])
    return rows + [[label, megabytes(summary[name])] for name, label in (("bytes_down", "down"), ("bytes_up", "up"))]


def n_drift_reports(summary: Row) -> int | None:
    """Return how many reports told of drift; the others are those by which clients joined.

    Examples
    --------
    >>> n_drift_reports({"n_reports": 76, "n_first_reports": 40})
    36
    """
    if summary["n_first_reports"] is None:
        return None
    return max(0, int(str(summary["n_reports"])) - int(str(summary["n_first_reports"])))


def failure_words(summary: Row) -> str:
    """Return how many trainings diverged and what helps; nothing if none did.

    Examples
    --------
    >>> failure_words({"n_failed": 3, "n_trained": 400})
    '3 of 400 trainings gave no finite model; lower training.learning_rate'
    """
    if not summary["n_failed"]:
        return ""
    return (
        f"{summary['n_failed']} of {summary['n_trained']} trainings gave no finite model; lower training.learning_rate"
    )
