"""Clients keep their places while nodes come, go and return at other addresses."""

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import CheckpointError, OptionError
from fielding.flower.server.exchange import Node
from fielding.flower.server.roster import Roster, RosterChanges, identity_of, key_id


def key(name: str) -> bytes:
    return b"-----BEGIN PUBLIC KEY-----\n" + name.encode()


def node(address: int, name: str, activated_at: str = "1") -> Node:
    return Node(address=address, public_key=key(name), activated_at=activated_at)


def simulated(*addresses: int) -> list[Node]:
    return [Node(address=address, public_key=bytes(32), heartbeat_s=1e300) for address in addresses]


ids = {name: hashlib.sha256(key(name)).hexdigest() for name in "abcd"}
BY_ID = sorted("abcd", key=lambda name: ids[name])


def test_a_client_is_known_by_the_hash_of_its_key() -> None:
    roster = Roster()

    changes = roster.see([node(5, "a")])

    assert roster.client_ids == changes.joined == (ids["a"],)
    assert key_id(key("a")) == ids["a"]
    assert (roster.address(0), roster.client_at(5)) == (5, 0)


def test_clients_that_come_together_get_their_places_by_id() -> None:
    here, there = Roster(), Roster()

    here.see([node(at, name) for at, name in enumerate("abcd")])
    there.see([node(at, name) for at, name in enumerate("dcba", start=100)])

    assert here.client_ids == there.client_ids == tuple(ids[name] for name in BY_ID)


def test_a_joiner_is_appended_whatever_its_id() -> None:
    roster = Roster()
    roster.see([node(1, BY_ID[1]), node(2, BY_ID[2])])

    changes = roster.see([node(1, BY_ID[1]), node(2, BY_ID[2]), node(3, BY_ID[0])])

    assert changes == RosterChanges(joined=(ids[BY_ID[0]],))
    assert [roster.client_ids.index(ids[name]) for name in BY_ID[:3]] == [2, 0, 1]


def test_whoever_leaves_keeps_its_place_and_returns_at_another_address() -> None:
    roster = Roster()
    roster.see([node(1, "a"), node(2, "b")])
    place = roster.client_ids.index(ids["a"])

    left = roster.see([node(2, "b")])
    away = roster.online()[place], roster.address(place), roster.client_at(1)
    returned = roster.see([node(2, "b"), node(9, "a")])

    assert left == RosterChanges(left=(ids["a"],))
    assert away == (False, None, None)
    assert returned == RosterChanges(returned=(ids["a"],))
    assert (roster.address(place), roster.client_at(9), len(roster)) == (9, place, 2)


def test_an_address_that_changes_between_two_looks_counts_as_a_return() -> None:
    roster = Roster()
    roster.see([node(1, "a")])

    assert roster.see([node(4, "a")]) == RosterChanges(returned=(ids["a"],))
    assert (roster.client_at(1), roster.client_at(4)) == (None, 0)


def test_an_address_may_pass_to_another_client() -> None:
    roster = Roster()
    roster.see([node(1, "a")])

    changes = roster.see([node(1, "b")])

    assert changes == RosterChanges(joined=(ids["b"],), left=(ids["a"],))
    assert roster.client_at(1) == 1


def test_of_two_nodes_with_one_key_the_newer_counts() -> None:
    roster = Roster()

    roster.see([node(2, "a", "2026-01-02"), node(7, "a", "2026-01-01")])

    assert (roster.address(0), len(roster)) == (2, 1)


def test_a_node_without_a_key_is_no_client_of_a_deployment() -> None:
    roster = Roster()

    assert roster.see([Node(address=1), *simulated(2)]) == RosterChanges()
    assert len(roster) == 0


def test_simulated_nodes_have_to_say_what_they_hold() -> None:
    roster = Roster("partition")

    first = roster.see(simulated(30, 10, 20))
    joined = roster.learn({10: 2, 20: 0})
    second = roster.see(simulated(30, 10, 20))

    assert first.unknown == (10, 20, 30)
    assert joined == roster.client_ids == (0, 2)
    assert (roster.client_at(20), roster.client_at(10), roster.client_at(30)) == (0, 1, None)
    assert second == RosterChanges(unknown=(30,))


def test_a_part_of_the_data_that_somebody_holds_cannot_be_claimed() -> None:
    roster = Roster("partition")
    roster.see(simulated(1, 2, 3))
    roster.learn({1: 0})

    assert roster.learn({1: 5, 2: 0, 3: 1}) == (1,)
    assert (roster.address(0), roster.client_at(2)) == (1, None)


def test_a_part_of_the_data_returns_with_another_node() -> None:
    roster = Roster("partition")
    roster.see(simulated(1))
    roster.learn({1: 0})

    changes = roster.see(simulated(8))
    joined = roster.learn({8: 0})

    assert changes == RosterChanges(left=(0,), unknown=(8,))
    assert joined == ()
    assert (roster.client_ids, roster.address(0)) == ((0,), 8)


def test_what_a_node_says_after_it_left_is_not_noted() -> None:
    roster = Roster("partition")
    roster.see(simulated(1))

    assert roster.learn({2: 0}) == ()


def test_keys_leave_nothing_to_learn() -> None:
    with pytest.raises(OptionError, match="known by their keys"):
        Roster("key").learn({1: 0})
    with pytest.raises(OptionError, match="unknown identity"):
        Roster("name")  # type: ignore[arg-type]


def test_a_node_without_a_key_among_others_does_not_make_it_a_simulation() -> None:
    assert identity_of([node(1, "a"), node(2, "b")]) == "key"
    assert identity_of(simulated(1)) == "partition"
    assert identity_of([node(1, "a"), Node(address=2)]) == "key"
    assert identity_of([]) == "key"


@given(st.lists(st.sets(st.sampled_from("abcd")), max_size=6))
def test_nobody_ever_loses_a_place(rounds: list[set[str]]) -> None:
    roster = Roster()
    for at, names in enumerate(rounds):
        before = roster.client_ids

        roster.see([node(100 * at + ord(name), name) for name in sorted(names)])

        assert roster.client_ids[: len(before)] == before
        assert {roster.client_ids[place] for place in np.flatnonzero(roster.online())} == {ids[name] for name in names}


@given(st.lists(st.sampled_from("abcd"), unique=True))
def test_a_roster_of_keys_comes_back_from_a_checkpoint(names: list[str]) -> None:
    roster = Roster()
    for at, name in enumerate(names):
        roster.see([node(at, name)])

    again = Roster.from_arrays(roster.arrays())

    assert (again.identity, again.client_ids) == ("key", roster.client_ids)
    assert not again.online().any()


@given(st.lists(st.integers(0, 2**53), unique=True))
def test_a_roster_of_partitions_comes_back_from_a_checkpoint(partitions: list[int]) -> None:
    roster = Roster("partition")
    roster.see(simulated(*range(len(partitions))))
    for at, partition in enumerate(partitions):
        roster.learn({at: partition})

    again = Roster.from_arrays({**roster.arrays(), "something.else": np.zeros(1)})

    assert (again.identity, again.client_ids) == ("partition", tuple(partitions))


def test_restored_clients_are_found_at_their_new_addresses() -> None:
    roster = Roster()
    roster.see([node(1, "a"), node(2, "b")])

    again = Roster.from_arrays(roster.arrays())
    changes = again.see([node(11, "a"), node(12, "b")])

    assert (changes.joined, set(changes.returned)) == ((), {ids["a"], ids["b"]})


def test_what_a_roster_keeps_fits_into_a_checkpoint() -> None:
    roster = Roster()
    roster.see([node(1, "a")])

    assert {one.dtype.str for one in (*roster.arrays().values(), *Roster("partition").arrays().values())} == {
        "|u1",
        "<i8",
    }


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"roster.keys": np.zeros((1, 31), dtype=np.uint8)},
        {"roster.keys": np.zeros((2, 32), dtype=np.uint8)},
        {"roster.partitions": np.zeros(2, dtype=np.int64)},
        {"roster.partitions": np.zeros(2, dtype=np.float64)},
        {"roster.partitions": np.zeros(1, dtype=np.int64), "roster.keys": np.zeros((1, 32), dtype=np.uint8)},
    ],
)
def test_what_is_no_roster_is_not_restored(arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
    with pytest.raises(CheckpointError):
        Roster.from_arrays(arrays)
