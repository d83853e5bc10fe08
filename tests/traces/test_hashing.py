import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fielding.errors import OptionError
from fielding.traces.features import HashedTexts, hash_texts

KNOWN = {"fix": (192, -1.0), "net": (496, 1.0), "zephyr": (225, 1.0)}
"""Bucket of 512 and sign of a word."""
TEXTS = st.lists(st.text(max_size=40), min_size=1, max_size=8)


def test_equal_words_give_equal_features_whatever_case_order_and_marks() -> None:
    rows = hash_texts(["net: fix Build", "BUILD fix (net)", "net_fix-build!"], 64)

    assert (rows == rows[0]).all()
    assert np.count_nonzero(rows[0]) == 3


def test_features_are_signed_counts_scaled_to_length_one() -> None:
    one, both = hash_texts(["build"], 4096)[0], hash_texts(["build build net"], 4096)[0]
    place = int(np.flatnonzero(one)[0])

    assert abs(one[place]) == 1.0
    assert both[place] / one[place] == pytest.approx(2 / np.sqrt(5))


def test_signs_and_buckets_are_spread_evenly() -> None:
    rows = hash_texts([f"word{number}" for number in range(4000)], 8)
    per_bucket = np.abs(rows).sum(axis=0)

    assert abs(float(rows.sum())) < 5 * np.sqrt(4000)
    assert (np.abs(per_bucket - 500) < 5 * np.sqrt(500)).all()


def test_a_text_without_words_is_all_zeros() -> None:
    assert not hash_texts(["", "  --- ", "__"], 16).any()


@given(texts=TEXTS, at=st.integers(0, 7))
def test_a_row_depends_on_its_own_text_alone(texts: list[str], at: int) -> None:
    at %= len(texts)
    together = HashedTexts(32)
    for text in texts:
        together.add([text])

    rows = together.features()

    assert rows.dtype == np.float32
    assert (rows[at] == hash_texts([texts[at]], 32)[0]).all()
    assert (together.features(np.array([at, 0])) == rows[[at, 0]]).all()
    lengths = np.linalg.norm(rows, axis=1)
    assert ((lengths < 1e-9) | (np.abs(lengths - 1.0) < 1e-5)).all()


def test_another_process_gives_the_same_features() -> None:
    code = (
        'from fielding.traces.features import hash_texts as h; print(h(["fix the build", "naïve"], 8).tobytes().hex())'
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == hash_texts(["fix the build", "naïve"], 8).tobytes().hex()


def test_known_words_keep_their_buckets_for_ever() -> None:
    """A changed hash would silently change every result on texts."""
    signed = {word: hash_texts([word])[0] for word in ("fix", "net", "zephyr")}

    assert {word: (int(np.flatnonzero(row)[0]), float(row.sum())) for word, row in signed.items()} == KNOWN


def test_halves_of_surrogate_pairs_are_no_reason_to_fail() -> None:
    assert hash_texts(["\ud800 fix"], 16).any()


@pytest.mark.parametrize("n_features", [0, -1, True, 1 << 21])
def test_an_impossible_number_of_features_is_refused(n_features: int) -> None:
    with pytest.raises(OptionError, match="text features were asked for; give 1 to"):
        HashedTexts(n_features)
