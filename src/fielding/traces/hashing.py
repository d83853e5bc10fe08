"""Text as features: words hashed into signed buckets, so that no vocabulary has to be agreed on or sent."""

import re
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from fielding._typing import Codes, Counts, Features
from fielding.errors import OptionError, echo

TEXT_FEATURES = 512
"""Buckets that words are hashed into unless told otherwise."""
MOST_FEATURES = 1 << 20
LARGEST_CACHE = 1_000_000
"""Distinct words that are remembered at most; beyond, they are hashed again."""

_WORD = re.compile(r"[^\W_]+")
_CHUNK = 4096


class HashedTexts:
    """Texts as they come, each kept as the signed buckets of its words; dense features are made when asked for.

    A word is a run of letters and digits, in lower case. Its bucket and its sign follow from its bytes alone (BLAKE2b),
    so the same text has the same features in every process and wherever it stands. The features of a text are the sums
    of its signs per bucket, scaled to length 1; a text without words is all zeros.

    Parameters
    ----------
    n_features
        How many buckets.

    Examples
    --------
    >>> texts = HashedTexts(8)
    >>> texts.add(["Fix the build", "fix THE build!", ""])
    >>> rows = texts.features()
    >>> rows.shape, bool((rows[0] == rows[1]).all()), round(float(np.linalg.norm(rows[0])), 6), rows[2].any().item()
    ((3, 8), True, 1.0, False)
    """

    def __init__(self, n_features: int = TEXT_FEATURES) -> None:
        if isinstance(n_features, bool) or not 1 <= n_features <= MOST_FEATURES:
            raise OptionError(f"{echo(n_features)} text features were asked for; give 1 to {MOST_FEATURES}")
        self.n_features = n_features
        self._known: dict[str, int] = {}
        self._codes: list[Codes] = []
        self._lengths: list[Codes] = []

    def __len__(self) -> int:
        return sum(part.size for part in self._lengths)

    def add(self, texts: Sequence[str]) -> None:
        """Take the next texts."""
        if len(self._known) > LARGEST_CACHE:
            self._known.clear()
        known = self._known
        words = [_WORD.findall(text.lower()) for text in texts]
        codes = [known[word] if word in known else self._learn(word) for row in words for word in row]
        self._codes.append(np.array(codes, dtype=np.int32))
        self._lengths.append(np.fromiter(map(len, words), dtype=np.int32, count=len(words)))

    def _learn(self, word: str) -> int:
        """Return the bucket of a word, from 1, negative for the sign minus."""
        # Not hash(): that differs between processes. Texts of fixed width may hold halves of surrogate pairs.
        number = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
        bucket = number % self.n_features + 1
        code = -bucket if number >> 63 else bucket
        self._known[word] = code
        return code

    def features(self, rows: Counts | None = None) -> Features:
        """Return the features of all texts, or of some rows in their order, shape ``(n_texts, n_features)``."""
        codes = np.concatenate([*self._codes, np.empty(0, dtype=np.int32)])
        lengths = np.concatenate([*self._lengths, np.empty(0, dtype=np.int32)]).astype(np.int64)
        begins = np.cumsum(lengths) - lengths
        wanted = np.arange(lengths.size, dtype=np.int64) if rows is None else rows
        features = np.zeros((wanted.size, self.n_features), dtype=np.float32)
        step = max(1, _CHUNK * TEXT_FEATURES // self.n_features)
        for start in range(0, wanted.size, step):
            part = wanted[start : start + step]
            features[start : start + step] = _dense(codes, begins[part], lengths[part], self.n_features)
        return features


def _dense(codes: Codes, begins: Counts, lengths: Counts, n_features: int) -> Features:
    """Return the features of texts whose codes begin at these places, shape ``(n_texts, n_features)``."""
    row = np.repeat(np.arange(lengths.size, dtype=np.int64), lengths)
    place = np.arange(row.size, dtype=np.int64) + np.repeat(begins - (np.cumsum(lengths) - lengths), lengths)
    signed = codes[place].astype(np.int64)
    cells = row * n_features + np.abs(signed) - 1
    sums = np.bincount(cells, weights=np.sign(signed), minlength=lengths.size * n_features)
    dense = sums.reshape(lengths.size, n_features)
    norms = np.sqrt((dense * dense).sum(axis=1, keepdims=True))
    return (dense / np.where(norms > 0.0, norms, 1.0)).astype(np.float32)


def hash_texts(texts: Sequence[str], n_features: int = TEXT_FEATURES) -> Features:
    """Return the hashed words of each text, rows of length 1, shape ``(n_texts, n_features)``.

    Parameters
    ----------
    texts
        The texts, in any language that separates words.
    n_features
        How many buckets; fewer make more words share one.

    Examples
    --------
    >>> two, one = hash_texts(["a b", "b a"], 16), hash_texts(["b  A"], 16)
    >>> bool((two == one).all())
    True
    """
    hashed = HashedTexts(n_features)
    hashed.add(texts)
    return hashed.features()
