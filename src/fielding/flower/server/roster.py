"""The clients of a deployment: nodes come, go and return at other addresses, a client keeps its place for good."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from fielding._typing import ClientId, Mask
from fielding.errors import CheckpointError, OptionError, echo, unknown_name
from fielding.flower.flwr_inside import ENDLESS_S
from fielding.flower.server.exchange import Node

Identity: TypeAlias = Literal["key", "partition"]
"""What clients are known by: the hash of a public key, or the part of the data that they hold."""

_KEY_BYTES = 32
_NAMES: dict[Identity, str] = {"key": "roster.keys", "partition": "roster.partitions"}


def identity_of(nodes: Iterable[Node]) -> Identity:
    """Return what the clients behind these nodes can be known by: their keys, unless Flower simulates them all.

    A node without a key among others that have one is passed over; it does not change what these are known by.

    Examples
    --------
    >>> identity_of([Node(address=7, public_key=b"-----BEGIN PUBLIC KEY-----")])
    'key'
    >>> identity_of([Node(address=7, public_key=b"random", heartbeat_s=1e300)])
    'partition'
    """
    has_key = [_has_key(node) for node in nodes]
    return "key" if any(has_key) or not has_key else "partition"


def key_id(public_key: bytes) -> str:
    """Return the id of the client with a public key: its SHA-256 in hexadecimal."""
    return sha256(public_key).hexdigest()


def _has_key(node: Node) -> bool:
    return node.heartbeat_s < ENDLESS_S and node.public_key.startswith(b"-----BEGIN")


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterChanges:
    """What is new since nodes were looked at last.

    Parameters
    ----------
    joined
        Clients that were never seen before, in the order in which they got their places: by id.
    returned
        Clients that were away, or are now at another address.
    left
        Clients that can no longer be reached.
    unknown
        Addresses of nodes that still have to name their partition, rising.
    turned_away
        Addresses of nodes whose clients came after the roster was closed, rising; each is named once.
    """

    joined: tuple[ClientId, ...] = ()
    returned: tuple[ClientId, ...] = ()
    left: tuple[ClientId, ...] = ()
    unknown: tuple[int, ...] = ()
    turned_away: tuple[int, ...] = ()


class Roster:
    """The clients of a federation in the order in which they came, and where each can be reached now.

    Parameters
    ----------
    identity
        What clients are known by.

    Examples
    --------
    >>> roster = Roster("partition")
    >>> roster.see([Node(address=71), Node(address=70)]).unknown
    (70, 71)
    >>> roster.learn({71: 0, 70: 1})
    (0, 1)
    >>> roster.client_ids, roster.address(0), roster.client_at(70)
    ((0, 1), 71, 1)
    >>> roster.see([Node(address=70)]).left, roster.online().tolist()
    ((0,), [False, True])
    """

    def __init__(self, identity: Identity = "key") -> None:
        if identity not in get_args(Identity):
            raise unknown_name("identity of clients", identity, get_args(Identity))
        self.identity: Identity = identity
        self._ids: list[ClientId] = []
        self._all_ids: tuple[ClientId, ...] = ()  # the same, made anew only when clients joined
        self._place: dict[ClientId, int] = {}
        self._address: dict[int, int] = {}  # of clients, by place
        self._client: dict[int, int] = {}  # the same, the other way round
        self._nodes: frozenset[int] = frozenset()
        self._is_open = True
        self._key_ids: dict[bytes, str] = {}  # of the keys that were seen last, so that each is hashed once
        self._strangers: dict[int, bool] = {}  # addresses of clients that came too late, and whether that was reported

    def close(self) -> None:
        """Let no client join any more: those that come for the first time are turned away."""
        self._is_open = False

    @property
    def client_ids(self) -> tuple[ClientId, ...]:
        """All clients that ever came; none loses its place."""
        if len(self._all_ids) != len(self._ids):  # a tuple per question would be quadratic in the clients of a round
            self._all_ids = tuple(self._ids)
        return self._all_ids

    def __len__(self) -> int:
        """Return the number of clients that ever came."""
        return len(self._ids)

    def online(self) -> Mask:
        """Return which clients can be reached, shape ``(n_clients,)``."""
        mask = np.zeros(len(self._ids), dtype=np.bool_)
        mask[list(self._address)] = True
        return mask

    def place(self, client_id: ClientId) -> int:
        """Return the place of a client that came."""
        return self._place[client_id]

    def address(self, client: int) -> int | None:
        """Return the address of the client at a place; None if it cannot be reached."""
        return self._address.get(client)

    def client_at(self, address: int) -> int | None:
        """Return the place of the client at an address; None if there is none, or it has not named its partition."""
        return self._client.get(address)

    def see(self, nodes: Iterable[Node]) -> RosterChanges:
        """Take note of all nodes that can be reached now; with keys, new clients get their places by id.

        Two nodes with one key: the one that came last counts, then the one with the higher address.
        """
        present = sorted(nodes, key=lambda node: (node.activated_at, node.address))
        self._nodes = frozenset(node.address for node in present)
        before = dict(self._address)
        where: dict[ClientId, int]
        if self.identity == "key":
            where = {self._key_id(node.public_key): node.address for node in present if _has_key(node)}
        else:
            where = {self._ids[place]: at for place, at in before.items() if at in self._nodes}
        joined = self._place_clients(where)
        are_new = set(joined)
        turned_away = tuple(sorted(at for at, is_told in self._strangers.items() if not is_told))
        self._strangers |= dict.fromkeys(turned_away, True)
        return RosterChanges(
            joined=joined,
            returned=tuple(
                self._ids[place]
                for place, at in sorted(self._address.items())
                if before.get(place) != at and self._ids[place] not in are_new
            ),
            left=tuple(self._ids[place] for place in sorted(before.keys() - self._address.keys())),
            unknown=tuple(sorted(self._nodes - self._client.keys() - self._strangers.keys()))
            if self.identity == "partition"
            else (),
            turned_away=turned_away,
        )

    def _key_id(self, public_key: bytes) -> str:
        found = self._key_ids.get(public_key)
        if found is None:
            if len(self._key_ids) > 2 * max(len(self._nodes), 1000):  # keys of nodes that are gone
                self._key_ids = {}
            found = self._key_ids[public_key] = key_id(public_key)
        return found

    def learn(self, partitions: Mapping[int, int]) -> tuple[ClientId, ...]:
        """Take note of the parts of the data that nodes hold, by address, and return the clients that joined, by id.

        Nodes that cannot be reached are passed over, and so are those that claim a part which another node holds; of
        several new ones the lowest address counts.
        """
        if self.identity != "partition":
            raise OptionError("clients of this roster are known by their keys; use Roster('partition') without keys")
        where = {self._ids[place]: address for place, address in self._address.items()}
        for address in sorted(self._nodes & partitions.keys()):
            if address not in self._client:
                where.setdefault(partitions[address], address)
        return self._place_clients(where)

    def _place_clients(self, where: dict[ClientId, int]) -> tuple[ClientId, ...]:
        """Note the addresses of clients; give places to those that have none, by id, and return them.

        A closed roster forgets these instead.
        """
        if not self._is_open:
            for client in [client for client in where if client not in self._place]:
                self._strangers.setdefault(where.pop(client), False)
        joined = tuple(sorted(client for client in where if client not in self._place))
        for client in joined:
            self._place[client] = len(self._ids)
            self._ids.append(client)
        self._address = {self._place[client]: address for client, address in where.items()}
        self._client = {address: place for place, address in self._address.items()}
        return joined

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return what a checkpoint needs: the ids, in order. Addresses are found out anew."""
        if self.identity == "key":
            raw = b"".join(bytes.fromhex(str(client)) for client in self._ids)
            return {_NAMES["key"]: np.frombuffer(raw, dtype=np.uint8).reshape(-1, _KEY_BYTES)}
        return {_NAMES["partition"]: np.array(self._ids, dtype="<i8")}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> "Roster":
        """Return a roster with the clients of the one whose :meth:`arrays` are among these, none reachable yet.

        Raises
        ------
        CheckpointError
            If they are no roster.
        """
        found: list[Identity] = [identity for identity, name in _NAMES.items() if name in arrays]
        if len(found) != 1:
            raise CheckpointError(f"the checkpoint holds {len(found)} rosters; it must be one of a deployment")
        identity, column = found[0], arrays[_NAMES[found[0]]]
        wanted = ("|u1", 2) if identity == "key" else ("<i8", 1)
        if (column.dtype.str, column.ndim) != wanted or (identity == "key" and column.shape[1] != _KEY_BYTES):
            raise CheckpointError(
                f"the roster of the checkpoint is {column.dtype} of shape {column.shape}; {wanted[0]} is wanted"
            )
        roster = cls(identity)
        ids: list[ClientId] = [row.tobytes().hex() for row in column] if identity == "key" else column.tolist()
        for client in ids:
            if client in roster._place:
                raise CheckpointError(
                    f"the roster of the checkpoint names {echo(client)} twice; use another checkpoint"
                )
            roster._place[client] = len(roster._ids)
            roster._ids.append(client)
        return roster
