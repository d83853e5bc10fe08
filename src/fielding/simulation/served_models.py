"""How the models that serve clients err on samples that they have not seen: those that just arrived."""

import numpy as np

from fielding._typing import Counts, Models, Vector
from fielding.simulation.scoring import Score
from fielding.simulation.serving import Correcting
from fielding.traces.sliding import Ranges, SlidingWindows


class ServedModels:
    """The models that serve clients now, as they know them themselves.

    Parameters
    ----------
    windows
        What clients see when.
    score
        Scores the samples of one model.
    correcting
        How clients shift the scores of their models; None: they do not.
    """

    def __init__(self, windows: SlidingWindows, score: Score, correcting: Correcting | None) -> None:
        self._windows, self._score, self._correcting = windows, score, correcting
        self._models: Models | None = None
        self._row: Counts = np.empty(0, dtype=np.int64)

    def serve(self, models: Models, row: Counts) -> None:
        """Hand out models: of these, the row of each client, shape ``(n_clients,)``."""
        self._models, self._row = models, row

    def errors(self, rows: Counts, training: Ranges) -> Vector:
        """Return 1 where a client's model errs on a schedule row, 0 where not, NaN while nobody is served.

        Parameters
        ----------
        rows
            Schedule rows, shape ``(n_rows,)``.
        training
            The training windows of all clients, whose label mix they correct their models to.
        """
        errors = np.full(rows.size, np.nan)
        if self._models is None or not rows.size:
            return errors
        models, owner = self._models, self._windows.schedule.client[rows]
        judge = None
        if self._correcting is not None:
            everyone = np.arange(self._row.size)
            offsets = self._correcting.offsets(models, self._row, clients=everyone, training=training)
            judge = self._correcting.judge(offsets)
        for row in np.unique(self._row[owner]).tolist():
            own = np.flatnonzero(self._row[owner] == row)
            is_right = judge(models[row], rows[own])[1][1] if judge else self._score(models[row], rows[own])[1]
            errors[own] = ~np.asarray(is_right)
        return errors
