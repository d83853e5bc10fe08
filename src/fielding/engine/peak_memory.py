"""How much memory this process held at most."""

import sys
from pathlib import Path


def peak_bytes() -> int | None:
    """Return the most memory that this process held so far, in bytes; None where the system does not tell.

    Linux's getrusage is asked only where there is no ``/proc``: it would count what the parent process held.
    """
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
