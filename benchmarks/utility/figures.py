"""Figures of the utility benchmark: means over splits of measured rows, and the best setting of the peers."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.core.figures import Figure
from benchmarks.core.results import Row
from benchmarks.utility.run import ABLATED, DELTA, EPSILONS, TABLES, Table, group_of

PURE, APPROXIMATE = 0.0, DELTA
MODES = {PURE: "δ = 0", APPROXIMATE: "δ = 10⁻⁵"}
METRICS = {"accuracy": "accuracy", "auc": "area under the curve", "log_loss": "log-loss", "r2": "R²"}
# Within this of each other two means count as alike: 0.3 points.
NEAR = 0.003


@dataclass(frozen=True)
class Best:
    """The best peer in a cell and the setting that made it so."""

    system: str
    settings: str
    figure: Figure


@dataclass(frozen=True)
class Cell:
    """A metric on a table at a budget, where both ``auto`` and a peer were measured."""

    table: Table
    epsilon: float
    delta: float
    metric: str
    auto: Figure
    best: Best
    chosen: float | None  # mean of the peers' settings that were the best on the other splits

    @property
    def lead(self) -> float:
        """By how much ``auto`` is better than the best setting in hindsight."""
        return self._lead(self.best.figure.mean)

    def _lead(self, peer: float) -> float:
        difference = self.auto.mean - peer
        return -difference if self.metric == "log_loss" else difference

    @property
    def verdict(self) -> str:
        return _verdict(self.lead)

    @property
    def verdict_on_chosen(self) -> str | None:
        return None if self.chosen is None else _verdict(self._lead(self.chosen))


@dataclass(frozen=True)
class Bins:
    """Test rows of all splits by the share that the second class was given; empty bins are left out."""

    counts: np.ndarray
    given: np.ndarray
    came: np.ndarray

    @property
    def error(self) -> float:
        """Mean distance between shares and outcomes."""
        return float((self.counts * np.abs(self.given - self.came)).sum() / self.counts.sum())


@dataclass
class Figures:
    """Rows by what they have in common but the seed."""

    _rows: dict[tuple[Any, ...], list[Row]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Figures":
        figures = cls()
        for row in rows:
            settings = dict(row["parameters"])
            budget = settings.pop("epsilon", None), settings.pop("delta", None)
            where = (row["dataset"], row["system"], *budget)
            figures._rows.setdefault((*where, json.dumps(settings, sort_keys=True)), []).append(row)
        return figures

    def rows(self, table: str, system: str, epsilon: float | None = None, delta: float | None = None) -> list[Row]:
        """The rows of a system without settings."""
        return self._rows.get((table, system, epsilon, delta, "{}"), [])

    def figure(
        self, table: str, system: str, metric: str, epsilon: float | None = None, delta: float | None = None
    ) -> Figure | None:
        return _figure(self.rows(table, system, epsilon, delta), metric)

    def _peers(self, table: str, epsilon: float, delta: float, system: str | None = None) -> Iterator[tuple[Any, list[Row]]]:
        """All settings of all peers, or of one, with their rows. What holds with δ = 0 holds with any other δ."""
        for key, rows in self._rows.items():
            is_peer = group_of(key[1]) == "peers" and system in (None, key[1])
            if is_peer and key[0] == table and key[2] == epsilon and key[3] <= delta:
                yield key, rows

    def chosen_peer(self, table: str, metric: str, epsilon: float, delta: float) -> float | None:
        """The mean over splits of the setting that is the best on all other splits: what a user who tries all can have."""
        found = {
            key: {row["seed"]: row["metrics"].get(metric) for row in rows}
            for key, rows in self._peers(table, epsilon, delta)
        }
        found = {key: values for key, values in found.items() if None not in values.values()}
        seeds = max((tuple(sorted(values)) for values in found.values()), key=len, default=())
        full = [values for values in found.values() if tuple(sorted(values)) == seeds]
        if len(seeds) < 2:
            return None
        sign = -1 if metric == "log_loss" else 1

        def on_the_others(values: dict[Any, Any], seed: Any) -> float:
            return sign * float(np.mean([value for other, value in values.items() if other != seed]))

        return float(np.mean([max(full, key=lambda v: on_the_others(v, seed))[seed] for seed in seeds]))

    def best_peer(self, table: str, metric: str, epsilon: float, delta: float, system: str | None = None) -> Best | None:
        """The best of all settings of all peers, or of one."""
        tried = [
            Best(key[1], key[4], figure)
            for key, rows in self._peers(table, epsilon, delta, system)
            if (figure := _figure(rows, metric)) is not None
        ]
        # A setting that was run on fewer splits may be the best by luck.
        most = max((best.figure.n for best in tried), default=0)
        full = [best for best in tried if best.figure.n == most]
        choose = min if metric == "log_loss" else max
        return choose(full, key=lambda best: best.figure.mean, default=None)

    def peer_rows(self, table: str, best: Best, epsilon: float) -> list[Row]:
        """The rows of a peer with its best setting."""
        return next(
            rows for key, rows in self._rows.items() if (*key[:3], key[4]) == (table, best.system, epsilon, best.settings)
        )

    def cells(self, metric: str) -> Iterator[Cell]:
        """Where ``auto`` and a peer can be compared."""
        for delta in MODES:
            for table in TABLES:
                for epsilon in EPSILONS:
                    auto = self.figure(table.name, "auto", metric, epsilon, delta)
                    best = self.best_peer(table.name, metric, epsilon, delta)
                    if auto is not None and best is not None:
                        chosen = self.chosen_peer(table.name, metric, epsilon, delta)
                        yield Cell(table, epsilon, delta, metric, auto, best, chosen)

    def reliability(self, table: str, epsilon: float, delta: float) -> Bins | None:
        """How the shares that ``auto`` gives come true."""
        found = [row["reliability"] for row in self.rows(table, "auto", epsilon, delta) if "reliability" in row]
        if not found:
            return None
        counts, given, came = (np.array([row[name] for row in found]) for name in ("counts", "predicted", "actual"))
        totals = counts.sum(axis=0)
        filled = totals > 0
        means = [(counts * values).sum(axis=0)[filled] / totals[filled] for values in (given, came)]
        return Bins(totals[filled], *means)

    def tables(self) -> list[Table]:
        """The tables that have rows, in their order."""
        found = {key[0] for key in self._rows}
        return [table for table in TABLES if table.name in found]

    def systems(self, table: str, group: str) -> list[str]:
        """The systems of a group that have rows on a table."""
        return list(dict.fromkeys(key[1] for key in self._rows if key[0] == table and group_of(key[1]) == group))

    def ablations(self) -> list[str]:
        """What was taken out of ``auto``."""
        found = dict.fromkeys(key[1] for key in self._rows if group_of(key[1]) == "ablations")
        return [system.removeprefix(ABLATED) for system in found]


def _verdict(lead: float) -> str:
    return "alike" if abs(lead) <= NEAR else "above" if lead > 0 else "below"


def _figure(rows: list[Row], metric: str) -> Figure | None:
    values = [row["metrics"][metric] for row in rows if metric in row["metrics"]]
    return Figure.of(values) if values else None


def metrics_of(table: Table) -> tuple[str, ...]:
    """What is measured on a table, the one that plots show first."""
    return ("r2",) if table.task == "regression" else ("accuracy", "auc", "log_loss")
