"""The trusted aggregator of mode ``client``: adds noise to sums over clients, once, and keeps the ledger."""

from collections.abc import Callable

import numpy as np

from fielding._typing import Counts
from fielding.client.privacy.geometric import RandomWords, secret_words
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.privacy.sums import EVERYONE, SumRule


class NoisedSums:
    """Grants sums as long as the budget lasts, and adds noise to them.

    ``words_of``: returns the random words for a round; None for the system's cryptographic source.
    """

    def __init__(
        self, rule: SumRule, ledger: PrivacyLedger, words_of: Callable[[int], RandomWords] | None = None
    ) -> None:
        self.rule, self._ledger = rule, ledger
        self._words_of = words_of or (lambda _round_index: secret_words)

    def grant(self, round_index: int) -> bool:
        """Return whether a sum may be released in a round; what it spends is on disk then."""
        return self._ledger.spend([(EVERYONE, round_index + 1)], round_index)[0]

    def noised(self, total: Counts, round_index: int) -> Counts:
        """Return a sum that was granted, with noise on each of its numbers."""
        return np.asarray(total + self.rule.noise().draw(total.size, self._words_of(round_index)))
