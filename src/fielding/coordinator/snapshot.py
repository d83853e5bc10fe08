"""A coordinator as plain values and arrays, and back: what a checkpoint holds."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Floats, Json
from fielding.client.report import checked_id
from fielding.coordinator.assignment import Clusters
from fielding.coordinator.coordinator import MOST_CLIENTS, Coordinator, checked_count
from fielding.coordinator.movement import TriggerMemory
from fielding.coordinator.policy import policy_from, policy_record
from fielding.coordinator.registry import Registry
from fielding.errors import CheckpointError

Arrays = Mapping[str, npt.NDArray[np.generic]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """All that decides what a coordinator does next: policy and counters as JSON, arrays by client or cluster."""

    values: dict[str, Json]
    arrays: Arrays


def snapshot(coordinator: Coordinator) -> Snapshot:
    """Return the state of a coordinator; arrays of the registry are views, so write or copy them at once."""
    registry, clusters = coordinator.registry, coordinator.clusters
    values: dict[str, Json] = {
        "policy": policy_record(coordinator.policy),
        "most_clients": coordinator.most_clients,
        "label_widths": list(registry.label_widths),
        "memory": asdict(coordinator.memory),
        "n_events": coordinator.n_events,
        "next_id": coordinator.next_id,
        "cluster_ids": list(clusters.ids) if clusters else None,
        "inbox": [
            [client_id, row.tolist(), coordinator.inbox_counts.get(client_id, 0)]
            for client_id, row in coordinator.inbox.items()
        ],
    }
    arrays: dict[str, npt.NDArray[np.generic]] = {
        "representations": registry.representations,
        "membership": registry.membership,
        "active": registry.active,
        "last_step": registry.last_step,
        **registry.samples.arrays(len(registry)),
        **_packed_ids(registry.client_ids),
    }
    if clusters:
        arrays |= {"centers": clusters.centers, "live": clusters.live, "since_global": clusters.since_global}
    return Snapshot(values=values, arrays=arrays)


def restore_coordinator(state: Snapshot) -> Coordinator:
    """Return a coordinator that decides exactly as the one that was written down."""
    try:
        return _read(state.values, state.arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise CheckpointError(f"the checkpoint does not describe a coordinator ({error!r})") from error


def _read(values: Mapping[str, Json], arrays: Arrays) -> Coordinator:
    policy, memory = values["policy"], values["memory"]
    if not isinstance(policy, dict) or not isinstance(memory, dict):
        raise CheckpointError("the checkpoint holds no policy")
    # Earlier versions did not keep how many clients are let in.
    coordinator = Coordinator(policy_from(policy), most_clients=int(str(values.get("most_clients", MOST_CLIENTS))))
    coordinator.registry = Registry.from_columns(
        _unpacked_ids(arrays), widths=_whole(values["label_widths"]), columns=arrays
    )
    coordinator.memory = TriggerMemory(**memory)  # type: ignore[arg-type]
    coordinator.n_events, coordinator.next_id = int(str(values["n_events"])), int(str(values["next_id"]))
    for received in _listed(values["inbox"]):
        client_id, row, n_samples = _received(_listed(received))
        coordinator.inbox[client_id], coordinator.inbox_counts[client_id] = row, n_samples
        if client_id not in coordinator.registry:
            coordinator.newcomers.add(client_id)
    if values["cluster_ids"] is not None:
        coordinator.clusters = Clusters(
            ids=tuple(_whole(values["cluster_ids"])),
            centers=arrays["centers"].astype(np.float64),
            live=arrays["live"].astype(np.bool_),
            since_global=arrays["since_global"].astype(np.float64),
        )
    return coordinator


def _listed(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise CheckpointError(f"the checkpoint holds {type(value).__name__} where a list belongs")
    return value


def _whole(value: Json) -> list[int]:
    return [int(str(number)) for number in _listed(value)]


def _received(report: list[Json]) -> tuple[ClientId, Floats, int]:
    client_id, row, *count = report  # earlier versions kept no number of samples
    return checked_id(client_id), np.array(_listed(row), dtype=np.float32), checked_count(count[0] if count else 0)


def _packed_ids(client_ids: Sequence[ClientId]) -> dict[str, npt.NDArray[np.generic]]:
    """Return the ids as arrays: whole numbers as they are, texts as one run of UTF-8 with the end of each."""
    if client_ids and isinstance(client_ids[0], int):
        return {"ids": np.array(client_ids, dtype=np.int64)}
    texts = [str(client_id).encode("utf-8", "surrogatepass") for client_id in client_ids]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return {"id_text": np.frombuffer(b"".join(texts), dtype=np.uint8), "id_ends": ends}


def _unpacked_ids(arrays: Arrays) -> list[ClientId]:
    if "ids" in arrays:
        return [int(number) for number in arrays["ids"].tolist()]
    run = arrays["id_text"].tobytes()
    ends = [0, *(int(end) for end in arrays["id_ends"].tolist())]
    return [run[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends)]
