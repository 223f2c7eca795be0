"""Which systems of other libraries are measured, and which settings are tried: the best of those listed here counts."""

from dataclasses import dataclass
from typing import Any

# A number that nearly no row of the table has would cost these systems nearly all rows.
LEFT_OUT = {"heart_hungarian": ("ca",)}


@dataclass(frozen=True)
class Peer:
    """A system, the tasks that it does, and its settings with the most useful first.

    ``delta`` is 0 for systems that are purely private. On large tables only ``n_settings_large`` settings are tried.
    """

    system: str
    tasks: tuple[str, ...]
    settings: tuple[dict[str, Any], ...]
    delta: float = 0.0
    n_settings_large: int = 2


def _trees(n_trees: int, depth: int) -> dict[str, Any]:
    return {"n_estimators": n_trees, "max_depth": depth}


def _rounds(n: int, rate: float, n_bins: int) -> dict[str, Any]:
    return {"max_rounds": n, "learning_rate": rate, "max_bins": n_bins}


BOTH = ("binary", "classes")
PEERS = (
    Peer(
        "diffprivlib forest",
        BOTH,
        (_trees(1, 12), _trees(25, 8), _trees(5, 8), _trees(10, 8), _trees(5, 12), _trees(50, 8), _trees(10, 4)),
    ),
    Peer(
        "diffprivlib naive Bayes",
        BOTH,
        ({"form": "ordinal", "var_smoothing": 1e-9}, {"form": "one-hot", "var_smoothing": 0.1}),
    ),
    Peer("diffprivlib logistic regression", BOTH, ({"C": 0.01}, {"C": 0.001}, {"C": 0.1}), n_settings_large=1),
    Peer(
        "diffprivlib linear regression",
        ("regression",),
        (
            {"form": "one-hot", "fit_intercept": True},
            {"form": "ordinal", "fit_intercept": True},
            {"form": "one-hot", "fit_intercept": False},
        ),
    ),
    Peer(
        "interpret DP-EBM",
        ("binary",),
        (
            _rounds(100, 0.3, 16),
            _rounds(100, 1.0, 32),
            {},
            _rounds(20, 1.0, 16),
            _rounds(100, 0.1, 8),
            _rounds(20, 0.05, 8),
            _rounds(100, 0.3, 32),
        ),
        delta=1e-5,
    ),
    Peer(
        "interpret DP-EBM",
        ("regression",),
        (_rounds(20, 0.05, 8), _rounds(100, 0.03, 16), {}, _rounds(20, 0.01, 8), _rounds(100, 0.1, 32)),
        delta=1e-5,
        n_settings_large=3,
    ),
)
# Tables on which fewer settings are tried, and rows that a slow system is given at most.
LARGE = ("connect4", "covertype_93k", "kddcup99_10pct", "nycflights13", "irrelevant_features", "fifty_classes")
MOST_ROWS = {("kddcup99_10pct", "diffprivlib logistic regression"): 20_000}


def settings_of(peer: Peer, table: str) -> tuple[dict[str, Any], ...]:
    """The settings of a peer that are tried on a table."""
    return peer.settings[: peer.n_settings_large] if table in LARGE else peer.settings
