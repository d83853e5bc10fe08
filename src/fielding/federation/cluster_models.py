"""All that a method keeps per cluster beside its members: a model, and what the server remembers of it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fielding._typing import Counts, Floats, Matrix, Models, Vector
from fielding.federation.aggregation import Aggregator, Uploads
from fielding.federation.aggregation.robust import clip_changes
from fielding.federation.aggregation.wiener import Wiener
from fielding.federation.clients import Updates
from fielding.federation.dp_fedavg import DpFedAvg
from fielding.federation.models import is_finite, mean_model, mix_models
from fielding.federation.pace import Pace, PaceStep, Steady
from fielding.federation.pace.pace import mix_memory

Arrays = dict[str, npt.NDArray[np.generic]]
_MEMORY, _COMMON, _PACE = "memory/", "common/", "pace/"
_INTERVAL = "interval"
SLOW = 0.1  # of what clients are served by is the newest model, where that is an average over rounds


class ClusterModels:
    """One model per cluster, which mix, learn and are written down together with the memory of the server.

    ``initial``: the one model that there is before there are clusters, float32, shape ``(n_numbers,)``. ``n_shared``:
    how many numbers at the beginning of a model all clusters share, the body of the network, where each keeps a last
    layer of its own; they are equal in all models at any time. ``has_common``: whether there is a model more, whose
    last layer is for the clients of all clusters, and clients are served by moving averages of all models over rounds.
    The server steps that model by the aggregator, and heads of clusters by what the aggregator has for these, if any.
    ``n_classes``: 0 if it is not known. ``clip``: changes of parameters that are longer than so many times the usual
    one of their cluster are shortened to that before they are combined; None for as they are. ``on_mix``: called with
    every mixing, for other parts that remember something per cluster. ``private``: adds noise to what is learned;
    ``expected`` then says how many participants each cluster has on average, before answers are learned from.
    """

    def __init__(
        self,
        initial: Models,
        aggregator: Aggregator,
        *,
        weighted: bool = False,
        pace: Pace | None = None,
        n_shared: int = 0,
        has_common: bool = False,
        n_classes: int = 0,
        clip: float | None = None,
        private: DpFedAvg | None = None,
    ) -> None:
        self._n_classes, self._clip = n_classes, None if private is not None else clip
        self.private, self.expected = private, np.zeros(1)
        self._n_common = int(has_common)
        self._rows: Models = np.repeat(initial[np.newaxis].astype(np.float32), 1 + self._n_common, axis=0)
        self._usual = np.zeros(len(self._rows))  # usual length of a change of each model's parameters; 0: not known
        self._slow, self._n_learned = self._rows, 0  # averages of the rows over rounds, if there is a model for all
        self._initial, self._n_shared = self._rows[0].copy(), n_shared
        self._aggregator, self._weighted = aggregator, weighted
        self._of_heads: Aggregator = (
            aggregator.for_heads if has_common and isinstance(aggregator, Wiener) else aggregator
        )
        # Where each of a model's numbers is stepped by itself, bodies are left out of what is done per cluster.
        is_apart = n_shared > 0 and self._of_heads is not aggregator
        self._own: slice = slice(n_shared if is_apart else 0, None)
        self._body: slice = slice(0, n_shared if is_apart else None)
        self._memory = {
            name: np.full_like(self.models[:, self._own], first) for name, first in self._of_heads.memory.items()
        }
        # What the server remembers of the model for all.
        self._common_memory = {
            name: np.full_like(self._initial, first) for name, first in aggregator.memory.items() if has_common
        }
        self._pace: Pace = pace or Steady()
        self.on_mix: Callable[[Matrix], None] = lambda _mixing: None
        self._tempo: dict[str, Floats] = {}
        if not isinstance(self._pace, Steady):
            first = self._pace.memory(initial.size)
            # Beside the state of the pace: the interval of data in which a cluster trained last.
            self._tempo = {name: state[np.newaxis] for name, state in first.items()} | {
                _INTERVAL: np.full((1, 1), -1.0)
            }

    @property
    def models(self) -> Models:
        """One row per cluster, float32."""
        return self._rows[:-1] if self._n_common else self._rows

    @models.setter
    def models(self, models: Models) -> None:
        """Take the models that a method made; what clusters share becomes the mean of all of them."""
        self._rows = np.concatenate([models, self._rows[-1:]]) if self._n_common else models
        if self._n_shared and models.shape[0] > 1:
            self._rows = self._rows.copy()
            self._rows[:, : self._n_shared] = mean_model(models[:, : self._n_shared])
        self._slow = self._rows

    @property
    def common(self) -> Models | None:
        """The model for the clients of all clusters, which share its body; None where there is none."""
        return self._rows[-1] if self._n_common else None

    @property
    def served(self) -> Models | None:
        """What clients are served by where there is a model for all: averages, a row per cluster, then that for all."""
        return self._slow if self._n_common else None

    def mix(self, mixing: Matrix) -> None:
        """Start new clusters from shares of the old ones; what the server remembers is shared out alike (A18)."""
        whole = self._with_common(mixing) if self._n_common else mixing
        self._rows = self._mixed(self._rows, whole)
        known = whole @ (self._usual > 0.0)
        self._usual = np.divide(whole @ self._usual, known, out=np.zeros(len(whole)), where=known > 0.0)
        self._slow = self._mixed(self._slow, whole) if self._n_common else self._rows
        mix_memories = mix_models if self._own.start else self._mixed
        self._memory = {name: mix_memories(rows, mixing) for name, rows in self._memory.items()}
        self._tempo = mix_memory(self._tempo, mixing)
        self.on_mix(mixing)

    def _with_common(self, mixing: Matrix) -> Matrix:
        """Return a mixing in which the model for all stays as it is; a cluster of everybody begins with it."""
        whole = np.zeros((mixing.shape[0] + 1, mixing.shape[1] + 1))
        whole[:-1, :-1], whole[-1, -1] = mixing, 1.0
        if mixing.shape[0] == 1:
            whole[0] = whole[-1]
        return whole

    def rate_factors(self, rows: Counts) -> Vector | None:
        """Return the factor on the learning rate of clients that train these models; None for 1."""
        if not self._tempo:
            return None
        return np.array([self._factor(row) for row in rows.tolist()])

    def learn(self, updates: Updates) -> None:
        """Combine what came back, cluster by cluster, each answer in the cluster whose model it was trained from.

        A model that no client trained stays as it was, and so does one that would not be finite afterwards. What
        clusters share takes one step of the server from all answers together: a step per cluster would be noisy.
        """
        if self.private is not None:
            updates = self.private.noised(self.models, updates, self.expected)
        if self._clip is not None:
            updates, self._usual = self._clipped(updates, self._clip)
        rows, memory = self._rows.copy(), {name: one.copy() for name, one in self._memory.items()}
        common, learned = {name: one.copy() for name, one in self._common_memory.items()}, list[int]()
        # The last row, and that of a cluster of everybody.
        trains_common = set(range(len(rows))[-1 if len(rows) > 2 else 0 :]) if self._n_common else set[int]()
        for row in np.unique(updates.start).tolist():
            own = _answers_from(updates.start, row)
            model, after = self._combined(row, updates, own, self._own, for_all=row in trains_common)
            if all(is_finite(one) for one in (model, *after.values())):
                rows[row, self._own] = model
                for name, remembered in after.items():
                    (common[name][self._own] if row in trains_common else memory[name][row])[:] = remembered
                learned.append(row)
        if self._n_shared and learned:
            own, shared = np.flatnonzero(np.isin(updates.start, learned)), slice(0, self._n_shared)
            model, after = self._combined(0, updates, own, self._body, for_all=self._n_common > 0)
            is_good = all(is_finite(one[shared]) for one in (model, *after.values()))
            rows[:, shared] = (model if is_good else self._rows[0])[shared]
            now, before = (common, self._common_memory) if self._n_common else (memory, self._memory)
            for name, remembered in now.items():
                remembered[..., shared] = (after if is_good else before)[name][..., shared]
        if self._n_common and len(rows) == 2:  # a cluster of everybody trains the model for all
            rows[1] = rows[0]
        before_round, self._rows, self._memory, self._common_memory = self._rows, rows, memory, common
        self._n_learned += 1
        rate = np.float32(max(SLOW, 1.0 / self._n_learned))
        self._slow = self._slow + rate * (rows - self._slow) if self._n_common else rows
        if self._tempo:
            for row in np.unique(updates.start[updates.start < len(self.models)]).tolist():
                self._keep_pace(row, before_round[row], updates)

    def _clipped(self, updates: Updates, clip: float) -> tuple[Updates, Vector]:
        """Return the answers without changes that are longer than usual, and the usual length of each model's."""
        models, usual = updates.models, self._usual.copy()
        for row in np.unique(updates.start).tolist():
            own = _answers_from(updates.start, row)
            sent = updates.models[own]
            clipped, usual[row] = clip_changes(
                self._rows[row], sent, updates.n_parameters, usual=float(usual[row]), factor=clip
            )
            if clipped is not sent:
                models = updates.models.copy() if models is updates.models else models
                models[own] = clipped
        return replace(updates, models=models), usual

    def _combined(
        self, row: int, updates: Updates, own: slice | Counts, part: slice, *, for_all: bool
    ) -> tuple[Models, Mapping[str, Models]]:
        """Return what the server makes of a part of a model and some answers, as of that for all or not, and memory."""
        before: Mapping[str, Models] = {name: one[part] for name, one in self._common_memory.items()}
        if not for_all:
            before = {name: rows[row] for name, rows in self._memory.items()}
        aggregator = self._aggregator if for_all else self._of_heads
        with np.errstate(over="ignore", invalid="ignore"):
            return aggregator.combine(self._rows[row, part], self._uploads(updates, own, part), before)

    def _keep_pace(self, row: int, before: Models, updates: Updates) -> None:
        """Let the pace of a cluster follow what its round did; a restart begins with the first model of all."""
        seen = float(self._tempo[_INTERVAL][row, 0])
        step = PaceStep(
            before=before,
            after=self.models[row],
            loss=float(updates.loss[updates.start == row].mean()),
            # Data that arrived are a time step, whether or not the method hears of drift; those of the start are none.
            has_new_data=updates.interval > seen >= 0.0,
            round_index=updates.round_index,
            n_parameters=updates.n_parameters,
        )
        after = self._pace.observe(step, self._tempo_of(row)) | {_INTERVAL: np.array([float(updates.interval)])}
        tempo = {name: rows.copy() for name, rows in self._tempo.items()}
        for name, state in after.items():
            tempo[name][row] = state
        self._tempo = tempo
        if self._pace.restarts(self._tempo_of(row)):
            # What others share is not this cluster's to reset, unless there are no others.
            own = self._n_shared if self.models.shape[0] > 1 else 0
            self.models[row, own:] = self._initial[own:]

    def _mixed(self, rows: Models, mixing: Matrix) -> Models:
        """Return mixed rows; what is equal in all stays so to the bit, though shares may not sum to 1 exactly."""
        mixed = mix_models(rows, mixing)
        mixed[:, : self._n_shared] = rows[0, : self._n_shared]
        return mixed

    def _tempo_of(self, row: int) -> dict[str, Floats]:
        return {name: rows[row] for name, rows in self._tempo.items() if name != _INTERVAL}

    def _uploads(self, updates: Updates, own: slice | Counts, part: slice) -> Uploads:
        weights: Vector | None = updates.n_samples[own].astype(np.float64) if self._weighted else None
        return Uploads(
            models=updates.models[own, part],
            weights=weights,
            n_parameters=len(range(updates.n_parameters)[part]),
            learning_rate=updates.learning_rate * self._factor(int(updates.start[own][0])),
            start_loss=None if updates.start_loss is None else updates.start_loss[own],
            carried_over=carried_over(updates, self._n_classes) if self._n_classes > 1 else 1.0,
        )

    def _factor(self, row: int) -> float:
        return self._pace.factor(self._tempo_of(row)) if self._tempo and row < len(self.models) else 1.0

    def arrays(self) -> Arrays:
        """Return models and memory, for a checkpoint."""
        memory: Arrays = {f"{_MEMORY}{name}": rows for name, rows in self._memory.items()}
        if self._clip is not None:
            memory["usual"] = self._usual
        if self._n_common:
            memory |= {"common": self._rows[-1:], "slow": self._slow, "learned": np.array([self._n_learned])}
            memory |= {f"{_COMMON}{name}": one for name, one in self._common_memory.items()}
        return {"models": self.models, **memory, **{f"{_PACE}{name}": rows for name, rows in self._tempo.items()}}

    def restore(self, arrays: Mapping[str, npt.NDArray[np.generic]]) -> None:
        """Go on from what :meth:`arrays` gave."""
        parts = ("models", "common") if self._n_common else ("models",)
        self._rows = np.concatenate([arrays[name].astype(np.float32) for name in parts])
        self._slow = arrays["slow"].astype(np.float32) if self._n_common else self._rows
        self._n_learned = int(arrays["learned"][0]) if self._n_common else 0
        self._usual = _stored(arrays, "usual", np.zeros(len(self._rows))).astype(np.float64)
        # What a former aggregator or pace of the run did not remember begins afresh.
        for name, first in self._of_heads.memory.items():
            fresh = np.full_like(self.models[:, self._own], first)
            self._memory[name] = _stored(arrays, f"{_MEMORY}{name}", fresh).astype(np.float32)
        for name in self._common_memory:
            fresh = np.full_like(self._initial, self._aggregator.memory[name])
            self._common_memory[name] = _stored(arrays, f"{_COMMON}{name}", fresh).astype(np.float32)
        for name, rows in self._tempo.items():
            stored = _stored(arrays, f"{_PACE}{name}", np.repeat(rows[:1], self.models.shape[0], axis=0))
            self._tempo[name] = stored.astype(np.float32) if rows.dtype == np.float32 else stored.astype(np.float64)


def _stored(
    arrays: Mapping[str, npt.NDArray[np.generic]], name: str, fresh: npt.NDArray[np.generic]
) -> npt.NDArray[np.generic]:
    """Return an array of a checkpoint, of one that has bodies before heads the heads; a fresh one if none fits."""
    found = arrays.get(name, fresh)[..., -fresh.shape[-1] :]
    return found if found.shape == fresh.shape else fresh


def _answers_from(start: Counts, row: int) -> slice | Counts:
    """Return where the answers stand that were trained from a model: as a slice, a view, where they stand together."""
    own = np.flatnonzero(start == row)
    first, last = int(own[0]), int(own[-1])
    return slice(first, last + 1) if last - first + 1 == own.size else own


def carried_over(updates: Updates, n_classes: int) -> float:
    """Return how much of what models know of their training samples they know of samples that come later.

    What is known is by how much the log loss is below that of a blind guess, ``log n_classes``; means over the clients
    that tell both. From 0 to 1; 1 if no client tells, or if nothing is learnt yet.
    """
    new, blind = updates.new_loss, math.log(n_classes)
    if new is None:
        return 1.0
    told = np.isfinite(new) & np.isfinite(updates.loss)
    if not told.any() or (learnt := blind - float(updates.loss[told].mean())) <= 0.0:
        return 1.0
    with np.errstate(over="ignore"):  # what clients tell may be any number
        later = float(new[told].mean())
    return min(1.0, max(0.0, blind - later) / learnt)
