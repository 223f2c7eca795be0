"""000, §4.6: what the thesis quotes of twelve other papers."""

from typing import Any

from benchmarks.papers.base import BUDGETS, DIFFPID3, DIPRIME, DP_ERT, DPDF, N_THESIS, Sentence, Table, grid
from benchmarks.papers.rules import Above, Between, Trend, pick

RDT, SNR, BINARY, FI_2017 = "jagannathan-2009", "fletcher-islam-2015-snr", "bojarski-2015", "fletcher-islam-2017"
HOU, ZHANG, LIU, GUAN, RANA = "hou-2019", "zhang-2021", "liu-2022", "guan-2020", "rana-2015"
DIFFPRF, DPRF_GINI = "patil-singh-2014", "li-2017"
TWO = ("adult:data", "mushroom")
SHAPE_20: dict[str, Any] = {"n_trees": 20, "depth": 5}
SHAPE_HOU: dict[str, Any] = {"n_trees": 50, "depth": 6}


def _random_trees() -> tuple[Table, ...]:
    four = ("banknote", "congressional_voting", "mammographic", "mushroom")
    votes = ("majority", "threshold", "probabilistic")
    return (
        Table(
            name="thesis-jagannathan",
            title="Figure 4.2: Private-RDT (Jagannathan et al., 2009)",
            note="Ten trees of depth m/2. ε = ∞, the last point of the figure, is the column without privacy.",
            cells=grid(("mushroom", "nursery", "congressional_voting"), RDT, epsilon=(0.5, 0.75, 1.0), n_trees=10),
            quick=grid("nursery", RDT, epsilon=1.0, n_trees=10),
            n_seeds=N_THESIS,
            sentences=(Sentence("§4.6.1", "averages vary from 84 to 97 %", Between(pick(RDT), 0.84, 0.97)),),
        ),
        Table(
            name="thesis-snr",
            title="Figure 4.3: DP-RF (Fletcher and Islam, 2015) and Private-RDT",
            note="The four of its nine tables that the text names. DP-RF sets its number of trees and its depth itself.",
            cells=grid(("banknote", "mushroom", "car", "breast_cancer_wisconsin"), SNR, epsilon=BUDGETS)
            + grid(("banknote", "mushroom", "car", "breast_cancer_wisconsin"), RDT, epsilon=BUDGETS, n_trees=10),
            quick=grid("banknote", SNR, epsilon=1.0),
            n_seeds=N_THESIS,
            forest=(("n_trees", 10),),
            sentences=(
                Sentence(
                    "§4.6.1", "DP-RF is better than Private-RDT on average", Above(pick(SNR), pick(RDT), on_average=True)
                ),
                Sentence(
                    "§4.6.1",
                    "banknote, ε = 0.1: DP-RF is better than DiPriMe",
                    Above(pick(SNR, "banknote", epsilon=0.1), pick(DIPRIME, table="thesis-diprime", epsilon=0.1)),
                ),
            ),
        ),
        Table(
            name="thesis-bojarski",
            title="Figure 4.4: dpRFMV, dpRFTA and dpRFPA (Bojarski et al., 2015)",
            note="log n trees of height h = 6 and 14. The three votes are majority (MV), threshold averaging (TA) and "
            "probabilistic averaging (PA).",
            metric="error",
            cells=grid(four, BINARY, epsilon=(0.1, 0.5, 1.0, 2.0), depth=(6, 14), vote=votes),
            quick=grid("banknote", BINARY, epsilon=1.0, depth=6, vote=votes),
            panel="depth",
            sentences=(
                Sentence(
                    "§4.6.1",
                    "dpRFMV is better than dpRFPA",
                    Above(pick(BINARY, vote="majority"), pick(BINARY, vote="probabilistic")),
                ),
                Sentence(
                    "§4.6.1",
                    "dpRFTA is better than dpRFPA",
                    Above(pick(BINARY, vote="threshold"), pick(BINARY, vote="probabilistic")),
                ),
                Sentence(
                    "§4.7", "higher trees tend to be less accurate", Above(pick(BINARY, depth=6), pick(BINARY, depth=14))
                ),
            ),
        ),
    )


def _medians() -> Table:
    budgets = (0.01, *BUDGETS, 2.0)
    shape = {"n_trees": 10, "depth": 8, "part": True}
    return Table(
        name="thesis-diprime",
        title="Figure 4.5: DiPriMe and others on banknote",
        note="Depth 8 from Table 4.1; Figures 4 and 7 of the paper itself, above, have depth 5. DiffPRF has 20 trees of "
        "depth 5.",
        cells=grid("banknote", (DIPRIME, DP_ERT), epsilon=budgets, **shape)
        + grid("banknote", DPDF, epsilon=budgets, n_trees=10, depth=5)
        + grid("banknote", DIFFPRF, epsilon=budgets, criterion="max", **SHAPE_20),
        n_seeds=N_THESIS,
        forest=(("n_trees", 10), ("depth", 8)),
        sentences=tuple(
            Sentence(
                "§4.6.1",
                f"DiPriMe is better than {name}",
                Above(pick(DIPRIME, n_trees=10, depth=8), pick(name)),
            )
            for name in (DP_ERT, DPDF, DIFFPRF)
        ),
    )


def _shared_budgets() -> tuple[Table, ...]:
    hou = grid(TWO, HOU, epsilon=BUDGETS, **SHAPE_HOU)
    others = grid(TWO, DIFFPRF, epsilon=BUDGETS, criterion="max", **SHAPE_20)
    others += grid(TWO, "mu-2016", epsilon=BUDGETS, **SHAPE_HOU)
    return (
        Table(
            name="thesis-hou",
            title="Figure 4.7: DPRF-Hou (Hou et al., 2019) and others",
            note="50 trees; d_m = 7 layers, leaves included, are six levels of splits. DiffPRF chooses by the max operator; "
            "DiffP-RFs of Yin et al. is not in the sources, mu-2016, of the same name, stands in for it.",
            cells=hou + others,
            forest=tuple(SHAPE_HOU.items()),
            sentences=(
                Sentence(
                    "§4.6.2",
                    "adult: slightly less accurate than DiffPRF",
                    Above(pick(DIFFPRF, "adult:data", **SHAPE_20), pick(HOU)),
                ),
                Sentence("§4.6.2", "adult: better than DiffP-RFs", Above(pick(HOU, "adult:data"), pick("mu-2016"))),
            ),
        ),
        Table(
            name="thesis-zhang",
            title="Figure 4.8: DPRFMaxTree (Zhang et al., 2021) and DPRF-Hou",
            note="50 trees of depth 4, which the thesis does not say. Zhang et al. train on two attributes only, which are "
            "not named; here on all. MaxTree is not described in the sources.",
            cells=grid(TWO, ZHANG, epsilon=BUDGETS, n_trees=50, depth=4) + hou,
            quick=grid("mushroom", ZHANG, epsilon=1.0, n_trees=50, depth=4),
            forest=tuple(SHAPE_HOU.items()),
            sentences=(
                Sentence(
                    "§4.6.2",
                    "mushroom: better than DPRF-Hou",
                    Above(pick(ZHANG, "mushroom", n_trees=50, depth=4), pick(HOU)),
                ),
                *(
                    Sentence(
                        "§4.6.2",
                        f"adult, ε = {epsilon}: worse than DPRF-Hou",
                        Above(pick(HOU, "adult:data", epsilon=epsilon, depth=6), pick(ZHANG, epsilon=epsilon)),
                    )
                    for epsilon in (0.1, 0.25)
                ),
            ),
        ),
    )


def _two_phases() -> Table:
    six = ("breast_cancer_wisconsin", "pima", "mammographic", "tic_tac_toe", "heart_hungarian", "car")
    shape = {"n_trees": 30, "depth": 7}
    return Table(
        name="thesis-liu",
        title="Figure 4.9: TpDPRF (Liu et al., 2022) and others",
        note="All six tables, of which the figure shows three. 30 trees; d_m = 8 layers, leaves included, are seven levels "
        "of splits. The third rival is not named in the thesis.",
        cells=grid(six, LIU, epsilon=BUDGETS, **shape)
        + grid(six, DIFFPRF, epsilon=BUDGETS, criterion="max", **SHAPE_20)
        + grid(six, SNR, epsilon=BUDGETS),
        quick=grid("car", LIU, epsilon=1.0, **shape),
        n_seeds=N_THESIS,
        forest=tuple(shape.items()),
        sentences=(Sentence("§6", "the smaller the budget, the less accurate", Trend(pick(LIU), "epsilon")),),
    )


def _selected() -> Table:
    two = ("adult:data", "heart_cleveland:disease")
    return Table(
        name="thesis-guan",
        title="Figure 4.10: DPGDF (Guan et al., 2020), DPDF and Fletcher and Islam (2017)",
        note="50 trees of depth m/2; of heart disease it is asked whether there is any (303 rows). DPDF has four trees of "
        "depth 4. Three splits (the paper: ten times ten folds).",
        cells=grid(two, GUAN, epsilon=BUDGETS, n_trees=50)
        + grid(two, DPDF, epsilon=BUDGETS, n_trees=4, depth=4)
        + grid(two, FI_2017, epsilon=BUDGETS, n_trees=100),
        quick=grid("heart_cleveland:disease", GUAN, epsilon=1.0, n_trees=50),
        forest=(("n_trees", 50),),
        sentences=(
            *(
                Sentence(
                    "§4.6.2",
                    f"adult: better than {name}",
                    Above(pick(GUAN, "adult:data", n_trees=50), pick(name, n_trees=n_trees)),
                )
                for name, n_trees in ((DPDF, 4), (FI_2017, 100))
            ),
            *(
                Sentence(
                    "§4.6.2",
                    f"adult: worse than {name}",
                    Above(pick(name, "adult:data", table=table, n_trees=50), pick(GUAN, n_trees=50)),
                )
                for name, table in ((ZHANG, "thesis-zhang"), (HOU, "thesis-hou"))
            ),
        ),
    )


def _relaxed() -> Table:
    return Table(
        name="thesis-rana",
        title="Figure 4.6: Rana et al. (2015) on credit screening, area under the curve",
        note="In the paper each tree has the whole ε; here all trees share it. The Cancer table of a hospital is not to be "
        "had. A single tree is its DTree.",
        metric="auc",
        cells=grid("credit_approval", RANA, epsilon=(0.5, 1.0, 5.0), n_trees=(1, 5, 10, 20)),
        quick=grid("credit_approval", RANA, epsilon=1.0, n_trees=5),
        n_seeds=N_THESIS,
        x="n_trees",
        sentences=(
            Sentence(
                "§4.6.2",
                "forests are better than single trees",
                Above(pick(RANA, n_trees=10), pick(RANA, n_trees=1)),
            ),
            Sentence("§4.6.2", "in most cases more trees are better", Trend(pick(RANA), "n_trees")),
        ),
    )


def _criteria() -> tuple[Table, ...]:
    graph = grid("mushroom", DIFFPRF, epsilon=BUDGETS, criterion=("infogain", "max"), **SHAPE_20)
    rest = ("car", "credit_approval", "iris")
    return (
        Table(
            name="thesis-patil-singh",
            title="Figure 4.11: DiffPRF with three criteria (Patil and Singh, 2014)",
            note="20 trees of depth 5.",
            cells=grid(
                ("mushroom", "adult:data"), DIFFPRF, epsilon=BUDGETS, criterion=("infogain", "max", "gini"), **SHAPE_20
            ),
            quick=grid("mushroom", DIFFPRF, epsilon=0.1, criterion="max", **SHAPE_20),
            sentences=(
                Sentence(
                    "§4.6.2",
                    "the max operator is more accurate than information gain",
                    Above(pick(DIFFPRF, criterion="max"), pick(DIFFPRF, criterion="infogain")),
                ),
            ),
        ),
        Table(
            name="thesis-li-2017",
            title="Figure 4.12: DiffPRF and DPRF-Gini (Li et al., 2017)",
            note="20 trees of depth 5, as Table 4.1 supposes. The table of the figure is at ε = 0.1, its graph on mushroom. "
            "The thesis does not say which table Credit is; here credit screening.",
            cells=graph
            + grid("mushroom", DPRF_GINI, epsilon=BUDGETS, **SHAPE_20)
            + grid(rest, DIFFPRF, epsilon=0.1, criterion=("infogain", "max"), **SHAPE_20)
            + grid(rest, DPRF_GINI, epsilon=0.1, **SHAPE_20),
            sentences=(
                *(
                    Sentence(
                        "§4.6.2",
                        f"DPRF-Gini is less accurate than DiffPRF with {criterion}",
                        Above(pick(DIFFPRF, criterion=criterion), pick(DPRF_GINI)),
                    )
                    for criterion in ("infogain", "max")
                ),
            ),
        ),
    )


def _own() -> tuple[Table, ...]:
    """What no source prints: SuLQ-ID3 beside the tree that followed it, and what a private form may choose otherwise."""
    drawn = grid(TWO, LIU, epsilon=(0.1, 1.0), n_trees=90, depth=4, selection=("nig", "su", "off"))
    cut = {"epsilon": (0.1, 1.0), "criterion": "max", **SHAPE_20}
    medians = grid("wall_following", DIPRIME, epsilon=2.0, k=5, medians=("joint", "first"))
    medians += grid(("banknote", "mushroom:complete"), "suihkonen-2023", epsilon=1.0, medians=("joint", "first"))
    return (
        Table(
            name="thesis-single-trees",
            title="§4.1: single trees, SuLQ-ID3 (Blum et al., 2005) and DiffPID3",
            note="The sources describe SuLQ-ID3 and print no figure of it. Depth 4.",
            cells=grid(("mushroom", "nursery", "car"), ("blum-2005", DIFFPID3), epsilon=BUDGETS, depth=4),
            n_seeds=N_THESIS,
        ),
        Table(
            name="thesis-choices",
            title="Parameters of private forms: what is near the paper, and what else can be chosen",
            note="Cuts by MDL or even ones, features selected or drawn, medians in two stages or jointly, the share of the "
            "leaves, the least leaf. The printed forms have no such choice.",
            cells=grid("adult:data", DIFFPRF, cuts="mdl", **cut)
            + grid("adult:data", DIFFPRF, cuts="even", bins=5, **cut)
            + drawn
            + medians
            + grid("mushroom", "li-2022", epsilon=(0.25, 1.0), n_trees=50, depth=5, leaf_share=(0.5, 1 / 6))
            + grid("mushroom", RANA, epsilon=(0.25, 1.0), least_leaf=(0.0, 0.01)),
            published=(),
            n_seeds=N_THESIS,
            x="",  # nothing to draw: each line has another parameter
        ),
    )


def quoted() -> tuple[Table, ...]:
    hou, zhang = _shared_budgets()
    return (*_random_trees(), _medians(), _relaxed(), hou, zhang, _two_phases(), _selected(), *_criteria(), *_own())
