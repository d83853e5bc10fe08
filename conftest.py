"""What pytest must know before it looks into the source: without PyTorch, the modules that need it are left alone."""

from importlib.util import find_spec

NEED_TORCH = [
    "src/fielding/training/torch_*.py",
    "tests/training/modules.py",
    "tests/training/trainers.py",
]

collect_ignore_glob = [] if find_spec("torch") else NEED_TORCH
