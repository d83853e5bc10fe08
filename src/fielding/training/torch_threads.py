"""How many threads PyTorch uses inside one call, and on which device it works."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch

from fielding.errors import OptionError, echo


def device_named(name: str) -> torch.device:
    """Return a device that is there.

    Parameters
    ----------
    name
        ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"mps"``.

    Raises
    ------
    OptionError
        If there is no such device.

    Examples
    --------
    >>> device_named("cpu")
    device(type='cpu')
    """
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise OptionError(f"device is {echo(name)}; give cpu, cuda, cuda:<number> or mps") from error
    if device.type not in ("cpu", "cuda", "mps"):
        raise OptionError(f"device is {echo(name)}; give cpu, cuda, cuda:<number> or mps")
    n_devices = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}[
        device.type
    ]
    if (device.index or 0) >= n_devices:
        raise OptionError(f"device {echo(name)} is not available here ({n_devices} of that kind); use cpu")
    return device


class TorchThreads:
    """Holds PyTorch to a number of threads from the first entry to the last exit, whichever threads they are in.

    The number belongs partly to the calling thread and partly to the process, so it is set at every entry and
    given back at the last exit only. Entries that overlap must ask for the same number.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._depth = 0
        self._before = 1

    @contextmanager
    def limited_to(self, n_threads: int) -> Iterator[None]:
        """Use so many threads per operation within the block."""
        self._enter(n_threads)
        try:
            yield
        finally:
            self._leave()

    def _enter(self, n_threads: int) -> None:
        with self._lock:
            self._depth += 1
            before = torch.get_num_threads()
            if self._depth == 1:
                self._before = before
            if before != n_threads:
                torch.set_num_threads(n_threads)

    def _leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and torch.get_num_threads() != self._before:
                torch.set_num_threads(self._before)


TORCH_THREADS = TorchThreads()
"""``with TORCH_THREADS.limited_to(1):`` around work that several threads do at once."""
