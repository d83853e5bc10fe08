"""Where the samples of clients lie: index ranges over a trace in memory, or the files of one device."""

from collections.abc import Sequence
from typing import Protocol

from fielding._typing import Codes, Counts, Features, Mask, Matrix, Vector
from fielding.client.arrivals import Arrivals
from fielding.client.ranges import Ranges


class SampleStore(Protocol):
    """The samples of N clients and the windows that they see; rows name samples, and rise with time per client."""

    @property
    def n_clients(self) -> int:
        """Number of clients."""
        ...

    @property
    def n_classes(self) -> int:
        """Length of the class list."""
        ...

    def n_complete(self, round_index: int) -> int:
        """Return how many intervals of data have come by the start of a round."""
        ...

    def visible(self, round_index: int) -> tuple[int, int]:
        """Return the first interval that a window shows in a round, and the first that has not come yet."""
        ...

    def training(self, round_index: int) -> Ranges:
        """Return what each client can train on in a round."""
        ...

    def testing(self, round_index: int) -> Ranges:
        """Return what each client is tested on in a round: the test samples of its window."""
        ...

    def training_blocks(self, clients: Counts, blocks: Sequence[Counts]) -> Ranges:
        """Return the training samples of some intervals of clients, whether or not a window still shows them."""
        ...

    def gather(self, rows: Counts) -> tuple[Features, Codes]:
        """Return features and labels of rows, given in any order; thread-safe."""
        ...

    def labels(self, rows: Counts) -> Codes:
        """Return the labels of rows."""
        ...

    def targets(self, rows: Counts) -> Vector | None:
        """Return the labels of rows where labels are numbers, not classes; else None."""
        ...

    def owners(self, rows: Counts) -> Codes:
        """Return the client of each row."""
        ...

    def intervals(self, rows: Counts) -> Counts:
        """Return the interval in which each row came."""
        ...

    def rounds(self, rows: Counts) -> Counts:
        """Return the round in which each row came, below 0 before the start."""
        ...

    def is_test(self, rows: Counts) -> Mask:
        """Return which rows are for tests alone."""
        ...

    def places(self, rows: Counts) -> Counts:
        """Return the place of each row among all samples that ever came to its client, from 0."""
        ...

    def histograms(self, ranges: Ranges, which: Counts) -> Matrix:
        """Return the shares of labels in some ranges, shape ``(n_ranges, n_classes)``; each has samples."""
        ...

    def marks(self, places: Counts) -> Counts:
        """Return, as checkpoints hold it, the place up to which each client has looked at its samples."""
        ...

    def marked_places(self, marks: Counts) -> Counts:
        """Return the places whose :meth:`marks` are given."""
        ...


class Arriving(SampleStore, Protocol):
    """A store whose samples arrive interval by interval, for observers of many clients."""

    @property
    def n_rows(self) -> int:
        """Number of rows that there can be; all rows are below it."""
        ...

    @property
    def gap(self) -> int:
        """Rounds between two intervals of data."""
        ...

    @property
    def n_visible(self) -> int:
        """Number of intervals that a window shows."""
        ...

    def arrivals(self, interval: int) -> Arrivals:
        """Return the training samples that an interval brings."""
        ...

    def version(self, round_index: int) -> tuple[int, ...]:
        """Return numbers that change when some window does."""
        ...

    def moments(self, rows: Counts) -> Counts:
        """Return when each row came, in the unit of :meth:`visible`."""
        ...

    def slots(self, rows: Counts) -> Counts:
        """Return the place of each row in an array of ``n_rows`` numbers."""
        ...

    def all_rows(self) -> Counts:
        """Return all rows that the store still holds, rising."""
        ...
