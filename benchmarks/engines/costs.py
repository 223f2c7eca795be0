"""What a fit on very many rows would cost: passes over the rows, bytes of counts, seconds. A model, not a measurement."""

import math
from dataclasses import dataclass

from benchmarks.core.figures import size_text

KINDS = ("full-data", "disjoint", "sequential")
COUNT_BYTES = 8
FAN_IN = 8  # partial sums that a worker adds up at once
GB = 1e9


@dataclass(frozen=True)
class Cluster:
    """Workers, and what each can do in a second: bytes read from storage, codes counted, bytes sent to another."""

    workers: int
    reads: float = 0.5 * GB
    counts: float = 0.5 * GB
    sends: float = 1.25 * GB


@dataclass(frozen=True)
class Work:
    """A table and a forest of binary trees on it. Values have 4 bytes in the table, 1 as codes."""

    n_rows: int
    kind: str = "full-data"
    n_trees: int = 1
    depth: int = 6
    n_features: int = 20
    n_codes: int = 33  # of a feature: bins, and one for missing values
    n_classes: int = 2

    @property
    def table_bytes(self) -> int:
        """The bytes of the table, which is read once, to encode it."""
        return 4 * self.n_rows * (self.n_features + 1)

    @property
    def code_bytes(self) -> int:
        """The bytes of the codes, passed over in each level of a tree, or of all trees that grow together."""
        return self.n_rows * (self.n_features + 1)

    @property
    def passes(self) -> int:
        """Passes over the codes: one for each level, and one for the leaves, which see no features."""
        return (self.depth + 1) * (self.n_trees if self.kind == "sequential" else 1)

    @property
    def counted_bytes(self) -> int:
        """The bytes of codes that are counted in all passes; a forest on all records counts each for each tree."""
        per_tree = self.depth * self.code_bytes
        return per_tree if self.kind == "disjoint" else per_tree * self.n_trees

    def level_bytes(self, level: int) -> int:
        """The bytes of the counts of one level, nodes x codes of all features x classes; all trees that grow together."""
        together = 1 if self.kind == "sequential" else self.n_trees
        return together * 2**level * self.n_features * self.n_codes * self.n_classes * COUNT_BYTES

    @property
    def leaf_bytes(self) -> int:
        """The bytes of the counts of all nodes of one tree, or of trees that grow together, without features."""
        together = 1 if self.kind == "sequential" else self.n_trees
        return together * (2 ** (self.depth + 1) - 1) * self.n_classes * COUNT_BYTES

    @property
    def trainer_bytes(self) -> int:
        """Sums that reach the trainer in the whole fit: whatever the number of rows and of workers."""
        one = sum(self.level_bytes(level) for level in range(self.depth)) + self.leaf_bytes
        return one * (self.n_trees if self.kind == "sequential" else 1)

    def network_bytes(self, workers: int) -> int:
        """All partial sums that are sent: each worker but one sends its own once, and the last goes to the trainer."""
        return workers * self.trainer_bytes

    def seconds(self, cluster: Cluster) -> dict[str, float]:
        """Time of parts of a fit. A sum over workers takes as many rounds as the tree of sums has levels."""
        rounds = max(1, math.ceil(math.log(max(cluster.workers, 2), FAN_IN)))
        return {
            "encoding": self.table_bytes / (cluster.workers * cluster.reads),
            "counting": self.counted_bytes / (cluster.workers * cluster.counts),
            # A worker takes in up to FAN_IN arrays, one after the other, in each round.
            "sums": rounds * min(FAN_IN, cluster.workers) * self.trainer_bytes / cluster.sends,
        }


# Forests of the table on the page: a full-data tree, ten of them, a hundred disjoint trees, and trees one after the other.
FORESTS = (("full-data", 1), ("full-data", 10), ("disjoint", 100), ("sequential", 10))
SIZES = ((10**9, 10), (10**9, 100), (10**11, 100), (10**11, 1000))


def seconds_text(seconds: float) -> str:
    """Seconds, minutes or hours."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def foreseen() -> list[dict[str, str]]:
    """The table of the page: what fits on very many rows would cost."""
    entries = []
    for n_rows, workers in SIZES:
        for kind, n_trees in FORESTS:
            work = Work(n_rows, kind, n_trees)
            seconds = work.seconds(Cluster(workers))
            deepest = work.level_bytes(work.depth - 1)
            entries.append(
                {
                    "rows": f"10^{round(math.log10(n_rows))}",
                    "workers": str(workers),
                    "forest": f"{n_trees} {kind} tree{'s' if n_trees > 1 else ''}",
                    "table": size_text(work.table_bytes),
                    "codes": size_text(work.code_bytes),
                    "passes over codes": str(work.passes),
                    "counts of the deepest level": size_text(deepest),
                    "reach the trainer": size_text(work.trainer_bytes),
                    "sent in all": size_text(work.network_bytes(workers)),
                }
                | {part: seconds_text(own) for part, own in seconds.items()}
                | {"fit": seconds_text(sum(seconds.values()))}
            )
    return entries
