"""Methods that break in ways that a run cannot mend, and a small federation to break them on."""

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from fielding._typing import Json
from fielding.federation.clients import Clients, TrainingPlan, Updates
from fielding.methods.method import MethodSetting
from fielding.simulation.experiment import Watching
from tests.methods.own import Quiet

SMALL: dict[str, Json] = {
    "rounds": 3,
    "trace": {"clients": 8, "gap": 2, "window": 4},
    "training": {"participants": 4},
    "method": {"name": "global"},
    "checkpoint": {"every": 1},
}


class Buggy(Quiet):
    """Divides by zero in its second round; prints before that."""

    def __init__(self, setting: MethodSetting) -> None:
        super().__init__(setting)
        self._n_rounds = 0

    def learn(self, updates: Updates) -> None:
        sys.stdout.write("about to divide\n")
        sys.stdout.flush()
        sys.stderr.write("and to complain\n")
        super().learn(updates)
        self._n_rounds += 1
        if self._n_rounds == 2:
            self._n_rounds //= 0


class Killed(Quiet):
    """Is killed in its second round, unless the file ``may-live`` is in the current folder."""

    def __init__(self, setting: MethodSetting) -> None:
        super().__init__(setting)
        self._n_rounds = 0

    def learn(self, updates: Updates) -> None:
        super().learn(updates)
        self._n_rounds += 1
        if self._n_rounds == 2 and not Path("may-live").exists():
            os.kill(os.getpid(), signal.SIGKILL)


class Leaving(Quiet):
    """Calls ``sys.exit`` while it is made."""

    def __init__(self, setting: MethodSetting) -> None:
        super().__init__(setting)
        sys.exit(4)


class Vanishing(Quiet):
    """Ends its process while it is made, without a word."""

    def __init__(self, setting: MethodSetting) -> None:
        super().__init__(setting)
        os._exit(3)


class Hungry(Quiet):
    """Wants more memory than there is."""

    def plan(self, clients: Clients) -> TrainingPlan:  # noqa: ARG002
        raise MemoryError


class Slow(Quiet):
    """Takes a tenth of a second for a round, and tells its process's id in a file."""

    def learn(self, updates: Updates) -> None:
        Path(f"pid-{os.getpid()}").touch()
        time.sleep(0.1)
        super().learn(updates)


class Endless(Quiet):
    """Never ends its first round, and tells its process's id in a file."""

    def learn(self, updates: Updates) -> None:  # noqa: ARG002
        Path(f"pid-{os.getpid()}").touch()
        while True:
            time.sleep(0.1)


def complaining(folder: Path, watching: Watching, note: Callable[[str], None]) -> AbstractContextManager[Watching]:
    """Go on beside a run and complain."""
    note(f"nobody wants to hear of {folder.name}")
    return nullcontext(watching)
