"""Every table and figure of the five sources: where it is run again, or why not."""

from dataclasses import dataclass

NAMES = {
    "000": "Suihkonen, thesis 2023",
    "001": "DPDF, 2015",
    "002": "DiPriMe, 2020",
    "003": "out-of-bag weights, 2022",
    "004": "DiffPRF_linear, 2022",
}


@dataclass(frozen=True)
class Shown:
    """A table or figure of a source; ``tables`` run it again, ``why`` says what is not run."""

    source: str
    number: str
    what: str
    tables: tuple[str, ...] = ()
    why: str = ""


PICTURE = "an illustration, no experiment"
_ENERGY = ("diprime-appliances-epsilon", "diprime-appliances-depth", "diprime-appliances-n_trees")

SHOWN = (
    Shown("000", "Figure 2.1", "the idea of differential privacy", why=PICTURE),
    Shown("000", "Figure 2.2", "answers of a query on two neighbouring tables", why=PICTURE),
    Shown("000", "Figure 3.1", "an example of a decision tree", why=PICTURE),
    Shown("000", "Figure 4.1", "Hou et al.: budgets of layers by weight", why="a scheme; its weights are eq. 4.29, tested"),
    Shown(
        "000", "Table 4.1", "depths and numbers of trees of twelve papers", why="no experiment; the runs take them from it"
    ),
    Shown("000", "Figure 4.2", "Private-RDT, accuracy against ε", ("thesis-jagannathan",)),
    Shown(
        "000",
        "Figure 4.3",
        "DP-RF and Private-RDT, accuracy against ε",
        ("thesis-snr",),
        "five of its nine tables are not named in the text",
    ),
    Shown("000", "Figure 4.4", "dpRFMV, dpRFTA and dpRFPA, error by height", ("thesis-bojarski",)),
    Shown("000", "Figure 4.5", "DiPriMe and others on banknote", ("thesis-diprime", "diprime-banknote-epsilon")),
    Shown(
        "000",
        "Figure 4.6",
        "Rana et al., area under the curve",
        ("thesis-rana",),
        "the Cancer table of a hospital is not to be had",
    ),
    Shown(
        "000",
        "Figure 4.7",
        "DPRF-Hou and others, accuracy against ε",
        ("thesis-hou",),
        "DiffP-RFs of Yin et al. is not in the sources; its namesake mu-2016 stands in",
    ),
    Shown(
        "000",
        "Figure 4.8",
        "DPRFMaxTree and others, accuracy against ε",
        ("thesis-zhang",),
        "the two attributes that were used are not named, MaxTree is not described",
    ),
    Shown(
        "000",
        "Figure 4.9",
        "TpDPRF and others, accuracy against ε",
        ("thesis-liu",),
        "the third rival is not named in the text",
    ),
    Shown("000", "Figure 4.10", "DPGDF, DPDF and Fletcher and Islam (2017)", ("thesis-guan",)),
    Shown("000", "Figure 4.11", "DiffPRF with three criteria (two tables)", ("thesis-patil-singh",)),
    Shown("000", "Figure 4.12", "DPRF-Gini and DiffPRF (a table and a graph)", ("thesis-li-2017",)),
    Shown("000", "Table 5.1", "rows, features and depths of three tables", ("thesis-accuracy",), "the rows are the same"),
    Shown("000", "Figure 5.1", "DPRF_thesis on banknote", ("thesis-accuracy",)),
    Shown("000", "Figure 5.2", "DPRF_thesis on mushroom", ("thesis-accuracy",)),
    Shown("000", "Figure 5.3", "DPRF_thesis on adult", ("thesis-accuracy",)),
    Shown("001", "Figure 1", "an example of a decision tree", why=PICTURE),
    Shown("001", "Table 1", "the budget of one query", ("dpdf-accuracy",)),
    Shown("001", "Figure 2", "car, accuracy against β", ("dpdf-accuracy",)),
    Shown("001", "Figure 3", "chess (king and rook against king), accuracy against β", ("dpdf-accuracy",)),
    Shown("001", "Figure 4", "connect4, accuracy against β", ("dpdf-accuracy",)),
    Shown("001", "Figure 5", "mushroom, accuracy against β", ("dpdf-accuracy",)),
    Shown("001", "Figure 6", "nursery, accuracy against β", ("dpdf-accuracy",)),
    Shown("001", "Figure 7", "tic-tac-toe, accuracy against β", ("dpdf-accuracy",)),
    Shown("002", "Figure 1", "how evenly splits divide the data", ("diprime-halves",)),
    Shown("002", "Figure 2", "sizes of leaves and the bound of Theorem 2", ("diprime-tails",)),
    Shown("002", "Table 1", "squared errors of regression", ("diprime-regression", "diprime-flights")),
    Shown("002", "Figure 3", "appliances, squared error, trees on parts", _ENERGY),
    Shown("002", "Table 2", "classification errors", ("diprime-classification",)),
    Shown("002", "Figure 4", "banknote, error against ε, trees on parts", ("diprime-banknote-epsilon",)),
    Shown("002", "Figure 5", "appliances, squared error, trees on all records", _ENERGY),
    Shown("002", "Figure 6", "appliances, squared error by rho, ε and trees", ("diprime-rho",)),
    Shown("002", "Figure 7", "banknote, error against ε, trees on all records", ("diprime-banknote-epsilon",)),
    Shown("003", "Figure 1", "how the budget is divided", why="a scheme; equations 10 to 15, tested"),
    Shown("003", "Table 1", "rows and features of two tables", ("out-of-bag-epsilon",), "the rows are the same"),
    Shown("003", "Figure 2", "adult, accuracy against the depth", ("out-of-bag-depth",)),
    Shown("003", "Figure 3", "mushroom, accuracy against the depth", ("out-of-bag-depth",)),
    Shown("003", "Figure 4", "adult, accuracy against the number of trees", ("out-of-bag-trees",)),
    Shown("003", "Figure 5", "mushroom, accuracy against the number of trees", ("out-of-bag-trees",)),
    Shown("003", "Figure 6", "adult, three systems against ε", ("out-of-bag-epsilon",)),
    Shown("003", "Figure 7", "mushroom, three systems against ε", ("out-of-bag-epsilon",)),
    Shown("004", "Figure 1", "Laplace densities", why=PICTURE),
    Shown("004", "Figure 2", "a full binary tree", why=PICTURE),
    Shown("004", "Figure 3", "adult, accuracy by q, d and ε", ("linear-grid",)),
    Shown("004", "Figure 4", "bank, accuracy by q, d and ε", ("linear-grid",)),
    Shown("004", "Table 1", "adult, accuracy against the layers", ("linear-depth", "linear-depth-total")),
    Shown("004", "Figure 5", "Table 1 as curves", ("linear-depth",)),
    Shown("004", "Table 2", "bank, accuracy against the layers", ("linear-depth", "linear-depth-total")),
    Shown("004", "Figure 6", "Table 2 as curves", ("linear-depth",)),
    Shown("004", "Table 3", "methods compared in words", why="no numbers"),
)
# Tables of the page that no table or figure of a source has.
OUR_OWN = ("thesis-single-trees", "thesis-choices")
