"""DiffPRF_linear: linear budgets over layers, after Dong et al. (2022).

Paper: 25 CART trees of 9 layers on bootstraps, B/T each; layer i gets e1*q**(i-1) + (i-1)*d (eqs. 7 to 12), half of it for
class counts with Laplace noise, half shared by the numeric features drawn and one more share for discrete ones; pure or
small nodes stop; the mode of the trees' labels wins (Algorithms 3 and 4). As printed, nothing that reaches the output
is randomised.
Kept: eq. 12 with q and d (as a share of its largest value; q = 1 and d = 0 is uniform, q = 1 arithmetic, d = 0
geometric; by default 1.1 and 0.5, the paper's linear4), CART, Gini, shape, (Poisson) bootstrap, m features at a node (``k``:
the paper has no number, here 5), majority vote.
Departs: one private choice a node among all splits of the drawn features, for the whole of its layer, by permute-and-flip
on the Gini index times size: the half for counts pays for what no line reads, and features that are compared need no shares
of their own. Noisy leaves, for the last layer's budget; public cuts; no stop on pure or small nodes; ln(1 + B/T) for
each tree (docs/review.md, §2.4, §2.5, §2.9, §2.11, §2.16, §3).
"""

from dataclasses import replace

from dpforest import parts
from dpforest.recipes.papers.li_2020 import RECIPE as CART

RECIPE = replace(
    CART,
    name="dong-2022",
    title="DiffPRF_linear: linear budgets over layers",
    paper="Dong, Zhang, Xu, Wang and Liu, Journal of Database Management 2022",
    allocate=parts.Linear(q=1.1, slope=0.5),
    n_trees=25,
    depth=8,  # h = 9 layers, of which the last is leaves
    parameters={"q": "allocate.q", "d": "allocate.slope", "k": "propose.n_features"},
    claim="fails: the printed algorithm is not randomised",
)
