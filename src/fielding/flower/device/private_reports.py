"""The private reports of one device; loaded only where they are wanted, since every message starts a process."""

from pathlib import Path

import numpy as np

from fielding.client.privacy.geometric import secret_words
from fielding.client.privacy.ledger import PrivacyLedger
from fielding.client.representation.label import LabelShares
from fielding.flower.device.observe import ModelObserver
from fielding.flower.device.rule import DeviceRule
from fielding.flower.device.state import HeldModel
from fielding.flower.device.store import DeviceStore
from fielding.runtime.observe import SampleObserver, Sight
from fielding.runtime.private_reports import PrivateObserver
from fielding.runtime.train import NoiseOf
from fielding.runtime.workers import Compute


class PrivateReporter(ModelObserver):
    """Reports noised counts by turns: the runtime's private observer, of one client; see :class:`ModelObserver`.

    A report that was lost goes out again as it was. ``ledger``: the file of the budget; ``noise_of``: where noise comes
    from, None for the system's cryptographic source.
    """

    def __init__(
        self,
        rule: DeviceRule,
        store: DeviceStore,
        *,
        shared: HeldModel | None,
        compute: Compute | None,
        ledger: Path,
        noise_of: NoiseOf | None = None,
    ) -> None:
        self._ledger, self._noise_of = ledger, noise_of
        super().__init__(rule, store, shared=shared, compute=compute, errors=lambda rows: np.full(rows.size, np.nan))

    def _observing(self, rule: DeviceRule, store: DeviceStore, sight: Sight) -> SampleObserver:
        if rule.privacy is None:
            raise RuntimeError("this rule is about exact reports")
        return PrivateObserver(
            store,
            rule.representation or LabelShares(),
            rule=rule.privacy,
            sight=sight,
            ledger=PrivacyLedger(self._ledger, rule.privacy),
            client_ids=("device",),
            noise_of=self._noise_of or (lambda _client, _round_index: secret_words),
            is_whole=False,
        )
