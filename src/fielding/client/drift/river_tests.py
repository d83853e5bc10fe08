"""River's detectors on the prequential errors or losses of the model that a client is served (extra ``drift``).

A detector is fed with the reference window and then with the fresh samples, anew at every test. It needs no state
beside the windows: nothing to pickle, nothing to go astray after a restart. For a window of 140 samples that takes from
0.1 ms (ADWIN, Page-Hinkley) through 2 ms (HDDM) to 30 ms (KSWIN).
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fielding._extras import require
from fielding._typing import Vector
from fielding.client.drift.drift_test import Batch, pair_clients
from fielding.config.options import check_number, check_whole


class _RiverDetector(Protocol):
    """What all detectors of river can do."""

    @property
    def drift_detected(self) -> bool: ...

    def update(self, x: float) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Adwin:
    """Drift is a cut of the error stream into two of different means (ADWIN, Bifet and Gavalda 2007).

    ``delta`` is river's significance value. Its bound is loose: river's own 0.002 finds next to nothing in a hundred
    samples, and even 0.3 makes hardly a false alarm.
    """

    delta: float = 0.3

    def __post_init__(self) -> None:
        check_number("delta", self.delta, low=0.0, high=1.0)

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return 0 where errors rose, else 1, shape ``(n_clients,)``."""
        # clock=1: river looks at every 32nd sample by default, which is all that a small client has.
        return _feed(reference, fresh, lambda river: river.ADWIN(delta=self.delta, clock=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageHinkley:
    """Drift is a sum of errors above their mean (Page 1954).

    ``threshold`` is the sum that is too much; river's 50 is for streams of thousands. Each error may exceed the mean by
    ``tolerance``.
    """

    threshold: float = 12.0
    tolerance: float = 0.005

    def __post_init__(self) -> None:
        check_number("threshold", self.threshold, low=0.0, high=np.inf)
        check_number("tolerance", self.tolerance, low=0.0, high=np.inf)

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return 0 where errors rose, else 1, shape ``(n_clients,)``."""
        rule = {"threshold": self.threshold, "delta": self.tolerance, "mode": "up"}
        return _feed(reference, fresh, lambda river: river.PageHinkley(**rule))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kswin:
    """Drift is another distribution of the latest errors than of some before them (Raab et al. 2020); for losses.

    ``alpha``: river's significance value, per sample. ``window``, ``latest``: samples that it holds and how many of
    them are the latest; nothing is said before the window is full.
    """

    alpha: float = 0.01
    window: int = 60
    latest: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        check_number("alpha", self.alpha, low=0.0, high=1.0)
        check_whole("window", self.window)
        check_whole("latest", self.latest)

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return 0 where errors rose, else 1, shape ``(n_clients,)``."""
        rule = {"alpha": self.alpha, "window_size": self.window, "stat_size": self.latest, "seed": self.seed}
        return _feed(reference, fresh, lambda river: river.KSWIN(**rule))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hddm:
    """Drift is a mean error above its lowest so far by more than Hoeffding's bound (HDDM-A, Frias-Blanco et al. 2015).

    ``confidence`` is river's significance value. For 0/1 errors.
    """

    confidence: float = 0.01

    def __post_init__(self) -> None:
        check_number("confidence", self.confidence, low=0.0, high=1.0)

    def p_values(self, reference: Batch, fresh: Batch) -> Vector:
        """Return 0 where errors rose, else 1, shape ``(n_clients,)``."""
        return _feed(reference, fresh, lambda river: river.binary.HDDMA(drift_confidence=self.confidence))


def _feed(reference: Batch, fresh: Batch, build: Callable[..., _RiverDetector]) -> Vector:
    """Return 0 for clients whose fresh errors set the detector off and are more than before, else 1."""
    require("drift")
    river = importlib.import_module("river.drift")
    answers = np.ones(fresh.sizes.size)
    for client, then, now in pair_clients(reference, fresh):
        before = reference.errors[then][reference.labels[then] >= 0]
        after = fresh.errors[now][fresh.labels[now] >= 0]
        # Some detectors look both ways; a model that gets better is no drift.
        if not (before.size and after.size and after.mean() > before.mean()):
            continue
        detector = build(river)
        for error in before.tolist():
            detector.update(error)
        for error in after.tolist():
            detector.update(error)
            if detector.drift_detected:
                answers[client] = 0.0
                break
    return answers
