"""Drift within classes: another mean feature of the same label, whatever the label mix does."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fielding._typing import Counts, Features, Matrix, Vector
from fielding.client.drift.batch import Batch, paired
from fielding.client.drift.by_embedding import TINY, check_deals, form_p_value
from fielding.client.drift.dealing import Deal
from fielding.client.drift.options import check_whole
from fielding.errors import OptionError, echo


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassShift:
    """Drift is a shift of mean features within classes: of looks or meanings, exactly blind to the label mix.

    The squared shift of each class mean, in units of the spread within classes and weighted by the samples behind it,
    is summed over features and classes. Without drift the fresh and reference samples *of a label* could have been
    dealt the other way round, however the label mix moved: that is what the sum is compared with.

    Parameters
    ----------
    within
        ``"label"``: of a true label: sees looks and meanings. ``"predicted"``: of what the shared model takes samples
        for: needs no labels, sees looks, and is blind to meanings, since inputs that are only called otherwise stay
        where they are. :func:`~fielding.client.drift.kinds.kinds_of` tells the two apart by it.
    deals, limit, seed
        As in :class:`~fielding.client.drift.by_embedding.Mmd`.
    """

    within: Literal["label", "predicted"] = "label"
    deals: int = 0
    limit: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        if self.within not in ("label", "predicted"):
            raise OptionError(f"within is {echo(self.within)}; give 'label' or 'predicted'")
        check_deals(self.deals)
        check_whole("limit", self.limit)

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return how probable so large shifts are, shape ``(n_clients,)``; classes that one side lacks are left out."""
        answers = np.ones(fresh.sizes.size)
        for client, then, now in paired(reference, fresh):
            sides = self._latest(reference, then), self._latest(fresh, now)
            classes = np.concatenate([one for one, _ in sides])
            common = np.isin(classes, np.intersect1d(sides[0][0], sides[1][0])) & (classes >= 0)
            if np.count_nonzero(common) < 3:
                continue
            is_fresh = np.arange(classes.size) >= sides[0][0].size
            deal = Deal(is_fresh=is_fresh[common], strata=np.unique(classes[common], return_inverse=True)[1])
            form = _form(np.concatenate([one for _, one in sides])[common].astype(np.float64), deal)
            if form.any():
                answers[client] = form_p_value(form, deal, n_deals=self.deals, seed=self.seed)
        return answers

    def _latest(self, batch: Batch, which: slice) -> tuple[Counts, Features]:
        """Return the classes and features of the latest samples of a client."""
        which = slice(max(which.start, which.stop - self.limit), which.stop)
        return (batch.labels if self.within == "label" else batch.predicted)[which], batch.features[which]


def _form(features: Matrix, deal: Deal) -> Matrix:
    """Return the matrix K for which ``z' K z`` is the sum of squared shifts, ``z`` telling who is fresh."""
    totals, n_fresh = deal.totals, deal.n_fresh
    means = np.zeros((totals.size, features.shape[1]))
    np.add.at(means, deal.strata, features)
    inner = features - (means / totals[:, np.newaxis])[deal.strata]
    spread = np.sqrt((inner**2).mean(axis=0))
    moves = spread > TINY * (1.0 + np.abs(features).max(axis=0, initial=0.0))
    scaled = inner[:, moves] / spread[moves]
    # From the pooled mean of a class the fresh and reference sums are opposite: one of them tells the shift.
    weight = totals / np.maximum(n_fresh * (totals - n_fresh), 1.0)
    return np.where(deal.strata[:, np.newaxis] == deal.strata, scaled @ scaled.T, 0.0) * weight[deal.strata]
