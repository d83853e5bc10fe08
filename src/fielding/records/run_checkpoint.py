"""Checkpoints of a training run: models, clusters, clock, ledger, and how long the logs were."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Json, Membership, Models
from fielding.errors import CheckpointError, InputError, echo
from fielding.federation.models import mean_by_members
from fielding.records.container import Contents, read_contents, write_contents
from fielding.training.layout import Layout, layout_from

KIND = "run"
DRIVER, LEDGER, METHOD, SELECTION = "driver/", "ledger/", "method/", "selection/"
"""What the names of the arrays of driver, ledger, method and selection begin with."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunCheckpoint:
    """A run after some round."""

    round_index: int  # the last round that is done
    time_s: float  # simulated time at its end
    method: str
    layout: Layout
    models: Models  # one row per cluster
    cluster_ids: tuple[int, ...]  # the stable id of each row
    client_ids: tuple[ClientId, ...]
    membership: Membership  # the row of each client, -1 for none
    # State of method and ledger.
    values: Mapping[str, Json]
    arrays: Mapping[str, npt.NDArray[np.generic]]
    progress: Mapping[str, Json]  # sizes of the logs, and what else the folder wants to find again

    def model_of_cluster(self, cluster_id: int) -> Models:
        """Return the model of a cluster by its stable id, shape ``(n_numbers,)``."""
        if cluster_id not in self.cluster_ids:
            known = ", ".join(map(str, self.cluster_ids))
            raise InputError(f"there is no cluster {echo(cluster_id)}; there are {known}")
        return np.asarray(self.models[self.cluster_ids.index(cluster_id)])

    def cluster_of(self, client_id: ClientId) -> int | None:
        """Return the stable id of a client's cluster, None if it never had data."""
        if client_id not in self.client_ids:
            raise InputError(f"there is no client {echo(client_id)}; there are {len(self.client_ids)} others")
        row = int(self.membership[self.client_ids.index(client_id)])
        return None if row < 0 else self.cluster_ids[row]

    def mean_model(self) -> Models:
        """Return the mean of the clusters' models by the number of their clients: one model that knows a bit of all."""
        return mean_by_members(self.models, self.membership)


def save_run(checkpoint: RunCheckpoint, path: Path) -> None:
    """Write a checkpoint; after a crash at any moment, either the old file or the new one is there, whole."""
    values: dict[str, Json] = {
        "round": checkpoint.round_index,
        "time_s": checkpoint.time_s,
        "method": checkpoint.method,
        "layout": checkpoint.layout.record(),
        "cluster_ids": list(checkpoint.cluster_ids),
        "client_ids": list(checkpoint.client_ids),
        "state": dict(checkpoint.values),
    }
    arrays = {**checkpoint.arrays, "models": checkpoint.models, "membership": checkpoint.membership}
    write_contents(Contents(kind=KIND, values=values, arrays=arrays, progress=checkpoint.progress), path)


def load_run(path: str | Path) -> RunCheckpoint:
    """Read the checkpoint of a run; a damaged one or one of another kind raises CheckpointError."""
    contents = read_contents(Path(path))
    if contents.kind != KIND:
        raise CheckpointError(f"{path} is a checkpoint of a {contents.kind}, not of a run")
    values, arrays = contents.values, dict(contents.arrays)
    try:
        cluster_ids, client_ids, state = values["cluster_ids"], values["client_ids"], values["state"]
        if not isinstance(cluster_ids, list) or not isinstance(client_ids, list) or not isinstance(state, dict):
            raise TypeError("clusters, clients or state are missing")
        return RunCheckpoint(
            round_index=int(str(values["round"])),
            time_s=float(str(values["time_s"])),
            method=str(values["method"]),
            layout=layout_from(values["layout"]),
            # Where clients are served by averages over rounds, those count.
            models=arrays.get("slow", arrays["models"])[: len(cluster_ids)].astype(np.float32, copy=False),
            cluster_ids=tuple(int(str(one)) for one in cluster_ids),
            client_ids=tuple(one if isinstance(one, int) else str(one) for one in client_ids),
            membership=arrays["membership"].astype(np.int32, copy=False),
            values=state,
            arrays=arrays,
            progress=contents.progress,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is whole but describes no run ({error!r})") from error
