"""Tiny run folders, written by hand, whose figures can be checked with pencil and paper."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from fielding._typing import Json

GAP, WINDOW = 4, 4


def round_rows(accuracies: Sequence[float | None], **more: Sequence[Json]) -> list[dict[str, Json]]:
    """Return the lines of ``rounds.jsonl``: a minute each; ``more`` gives further fields, a value per round.

    A round whose accuracy is None was not evaluated.
    """
    rows: list[dict[str, Json]] = []
    for at, accuracy in enumerate(accuracies):
        row: dict[str, Json] = {
            "round": at, "time_s": 60.0 * (at + 1), "n_reports": 0, "n_moved": 0, "reclustered": False,
            "n_clusters": 1, "n_participants": 2, "bytes_down": 1000, "bytes_up": 500, "client_seconds": 2.0,
        }  # fmt: skip
        if accuracy is not None:
            row |= {"accuracy": accuracy, "worst_decile": accuracy / 2, "accuracy_weighted": accuracy}
        rows.append(row | {name: values[at] for name, values in more.items()})
    return rows


def run_folder(
    folder: Path,
    rounds: Sequence[Mapping[str, Json]],
    *,
    method: str = "fielding",
    seed: int = 1,
    finished: bool = True,
    logs: Mapping[str, Sequence[Mapping[str, Json]]] | None = None,
) -> Path:
    """Write the folder of a run; logs by their name without ending, those that are not given are empty."""
    folder.mkdir(parents=True)
    names = ("events", "memberships", "concepts", "clients", "timings")
    for name, lines in {"rounds": rounds, **{name: (logs or {}).get(name, ()) for name in names}}.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    config: dict[str, Json] = {
        "seed": seed,
        "rounds": len(rounds),
        "trace": {"gap": GAP, "window": WINDOW},
        "method": {"name": method},
    }
    (folder / "manifest.json").write_text(json.dumps({"fielding": "0", "seed": seed, "config": config}))
    if finished:
        (folder / "summary.json").write_text(json.dumps({"method": method, "stopped_by": "rounds"}))
    return folder


def compared(folder: Path, accuracies: Mapping[str, Mapping[int, Sequence[float | None]]]) -> Path:
    """Write the runs of some methods, by seed, each given by its accuracy after each round."""
    for method, mine in accuracies.items():
        for seed, curve in mine.items():
            run_folder(folder / f"{method}-{seed}", round_rows(curve), method=method, seed=seed)
    return folder
