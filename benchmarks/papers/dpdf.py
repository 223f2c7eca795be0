"""001: DPDF and DiffPID3 on six tables of categories (Fletcher and Islam, AusDM 2015)."""

from benchmarks.core.trials import Folds
from benchmarks.papers.base import DIFFPID3, DPDF, N_FOLDS, Question, Sentence, Table, grid
from benchmarks.papers.rules import Above, Halves, Trend, pick

BETAS = (0.1, 0.25, 0.5, 1.0, 2.0)
SIX = ("car", "krk_chess", "connect4", "mushroom", "nursery", "tic_tac_toe")
OVERLAPPING = ("tic_tac_toe", "connect4")

SENTENCES = (
    Sentence(
        "§5",
        "DPDF halves the difference between DiffPID3 and the random forest (for most tables, τ = 1)",
        Halves(pick(DPDF, n_trees=1), pick(DIFFPID3), pick(DIFFPID3, column="random forest")),
    ),
    Sentence(
        "§5",
        "on tic-tac-toe and connect4 DPDF with τ = 4 always beats DiffPID3",
        Above(pick(DPDF, *OVERLAPPING, n_trees=4), pick(DIFFPID3, *OVERLAPPING)),
    ),
    Sentence("§5", "sometimes τ = 1 beats τ = 4", Above(pick(DPDF, n_trees=1), pick(DPDF, n_trees=4))),
    Sentence("§5", "the accuracy of DPDF generally increases with β", Trend(pick(DPDF), "epsilon")),
    Sentence("§5", "the accuracy of DiffPID3 generally increases with β", Trend(pick(DIFFPID3), "epsilon")),
    Sentence(
        "§5",
        "on connect4 the random forest is worse than DPDF at every β",
        Above(pick(DPDF, "connect4"), pick(DPDF, "connect4", column="random forest")),
    ),
    Sentence(
        "§5",
        "on connect4 the random forest is worse than DiffPID3 at every β",
        Above(pick(DIFFPID3, "connect4"), pick(DIFFPID3, "connect4", column="random forest")),
    ),
)


def dpdf() -> Question:
    cells = grid(SIX, DPDF, epsilon=BETAS, n_trees=(1, 4), depth=4)
    cells += grid(SIX, DIFFPID3, epsilon=BETAS, depth=4, criterion="gini")
    quick = grid("nursery", DPDF, epsilon=1.0, n_trees=(1, 4), depth=4)
    quick += grid("nursery", DIFFPID3, epsilon=1.0, depth=4, criterion="gini")
    table = Table(
        name="dpdf-accuracy",
        title="Figures 2 to 7: accuracy against the budget β",
        note="δ = 5 levels, leaves included, are four levels of splits (depth). The random forest has 10 trees of any "
        "depth, as in the paper. The figures of the paper exist as pictures only; what the text says of them is compared.",
        cells=cells,
        quick=quick,
        n_seeds=N_FOLDS,
        forest=(("n_trees", 10),),
        sentences=SENTENCES,
    )
    return Question(
        name="dpdf",
        title="DPDF: Fletcher and Islam, AusDM 2015",
        note="Stratified ten-fold cross-validation, once (the paper: ten times).",
        why="The printed form scales the noise of its choices by a noisy node size, so its loss has no bound, and asks "
        "one level of counts more than it pays for. The private form chooses by the Gini count, whose bound needs no "
        "size. Its baseline DiffPID3 stands beside it in both forms: as the paper prints it, and private.",
        split=Folds(10),
        tables=(table,),
    )
