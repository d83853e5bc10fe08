"""What `import fielding` costs: time over bare Python, and which heavy packages it drags in (none)."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from fielding.bench.timing import in_turns

HEAVY = ("sklearn", "torch", "plotly", "scipy", "pydantic", "rich", "typer")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCost:
    """Median seconds of the import over bare Python's start, numpy's share, and heavy packages that got loaded."""

    import_fielding_s: float
    import_numpy_s: float
    heavy_loaded: str


def import_seconds(repeat: int) -> ImportCost:
    """Start fresh interpreters in turns."""
    timed = in_turns({name: _python(name) for name in ("pass", "import numpy", "import fielding")}, repeat)
    bare = timed["pass"].median
    check = f"import sys, fielding; print(' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.strip()
    return ImportCost(
        import_fielding_s=timed["import fielding"].median - bare,
        import_numpy_s=timed["import numpy"].median - bare,
        heavy_loaded=loaded or "none",
    )


def _python(code: str) -> Callable[[], int]:
    return lambda: subprocess.run([sys.executable, "-c", code], check=True).returncode
