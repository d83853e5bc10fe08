"""A Ray cluster on this machine: a head without CPUs and nodes of one CPU each, every node a raylet of its own.

As a program: prints the address, then the process of a new node for every line that it reads, and ends with its input.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from fielding.federation.aggregation import Mean

ROOT = Path(__file__).resolve().parents[2]
GATE = "go"
"""File in the folder where runs were started: without it :class:`Gated` runs get no farther than a few rounds."""
_combined = count()
LOOPBACK = "127.0.0.2"  # of 127.0.0.1 Ray makes the address that others know this machine by


class Gated(Mean):
    """Means, for which a run waits at the gate after a few rounds: 16, or fewer with several clusters."""

    def combine(self, *arguments: Any) -> Any:
        """Return the mean, as soon as the gate is open."""
        while next(_combined) >= 16 and not Path(GATE).exists():
            time.sleep(0.05)
        return super().combine(*arguments)


class RayNodes:
    """The cluster, as the process knows it that runs this file."""

    def __init__(self, process: subprocess.Popen[str], home: Path) -> None:
        self._process, self.home = process, home
        self._raylets: list[int] = []
        self.address = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline():
            if line.startswith("> "):
                return line[2:].strip()
        raise RuntimeError("no Ray cluster could be started")

    def add(self) -> int:
        """Start a node; returns the process of its raylet."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self._raylets.append(int(self._line()))
        return self._raylets[-1]

    @property
    def alive(self) -> list[int]:
        """Processes of the raylets that are there."""
        status = {pid: Path(f"/proc/{pid}/stat") for pid in self._raylets}
        return [pid for pid, path in status.items() if path.exists() and ") Z" not in path.read_text()]

    def environment(self) -> Mapping[str, str]:
        """Return what processes need to find the cluster."""
        return {"RAY_ADDRESS": self.address}


@contextmanager
def ray_nodes(home: Path) -> Iterator[RayNodes]:
    """Start a head, and end it and all nodes afterwards; ``home`` keeps Ray from asking clouds where it is."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "ray_bootstrap_config.yaml").write_text("provider: {type: local}\ncluster_name: local\n")
    with tempfile.TemporaryDirectory(prefix="ray-") as scratch:  # paths of sockets must be short
        quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0", "RAY_TMPDIR": scratch, "HOME": str(home)}
        others = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
        others["PYTHONPATH"] = str(ROOT)  # for Gated
        process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**others, **quiet},
        )
        try:
            yield RayNodes(process, home)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
            assert process.stdout is not None
            process.stdout.close()


def main() -> None:
    """Start what is asked for until there are no more questions."""
    from ray.cluster_utils import Cluster

    common = {"node_ip_address": LOOPBACK, "object_store_memory": 100_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False, **common})
    sys.stdout.write(f"> {cluster.address}\n")
    sys.stdout.flush()
    for _ in sys.stdin:
        node = cluster.add_node(wait=False, num_cpus=1, **common)  # waiting would take dead nodes amiss
        sys.stdout.write(f"> {node.all_processes['raylet'][0].process.pid}\n")
        sys.stdout.flush()
    cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
