"""The learning rate as the config has it."""

from dataclasses import dataclass

from fielding._typing import Floats
from fielding.federation.pace.pace import Memory, PaceStep


@dataclass(frozen=True, slots=True, kw_only=True)
class Steady:
    """Leaves the learning rate alone, and remembers nothing."""

    def memory(self, n_numbers: int) -> dict[str, Floats]:  # noqa: ARG002  (every pace is called alike)
        """Return nothing."""
        return {}

    def factor(self, memory: Memory) -> float:  # noqa: ARG002
        """Return 1."""
        return 1.0

    def restarts(self, memory: Memory) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def observe(self, step: PaceStep, memory: Memory) -> dict[str, Floats]:  # noqa: ARG002
        """Return nothing."""
        return {}
