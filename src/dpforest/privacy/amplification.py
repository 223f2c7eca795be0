"""What a release costs if it is made from a secret sample of the records. Public values only.

Privacy:
    Claim: let M be (e, d)-DP for adding or removing one unit (a record, or a person with all rows), and let each unit take
        part with probability at most q, by a secret coin of its own. Then M on those that take part is
        (log(1 + q (exp(e) - 1)), q d)-DP.
    Because: let p and p' be the laws of M on a sample without the new unit and on the same sample with it, a = exp(e). On
        the larger table the law is Q = (1 - q) p + q p', since the coin of the new unit does not depend on those of others.
        By assumption p'(S) <= a p(S) + d, so Q(S) <= (1 - q + q a) p(S) + q d. The other way round p'(S) >= (p(S) - d) / a,
        so p(S) <= (Q(S) + q d / a) / (1 - q + q / a); there (1 - q + q / a) (1 - q + q a) >= 1, because a + 1/a >= 2, and
        1 - q + q / a >= 1 / a, which gives p(S) <= (1 - q + q a) Q(S) + q d. The bounds grow with q, and averaging over the
        coins of others keeps them [li2012, Theorem 1; balle2018, Theorem 8]. The first is attained: by the count of
        one record with geometric noise, and d by randomized response.
    Assumes: the coins stay secret, and nothing else that is released depends on them.
"""

import math
from fractions import Fraction

from dpforest.privacy.amounts import float_above

SHARE_STEPS = 1 << 20  # a share is a multiple of one over this
# More than the relative error of the formulas below, which is a few roundings of 2**-53.
ROUNDING = 2.0**-48
# Above this exp(e) - 1 may pass the largest float.
LARGE = 700.0


def outside_sample(epsilon: float, share: Fraction) -> float:
    """The epsilon on the table of what costs ``epsilon`` on a sample of this share; rounded up."""
    if share == 1 or epsilon <= 0 or math.isinf(epsilon):
        return epsilon
    inside, part = float_above(epsilon), math.nextafter(float(share), 1.0)
    if inside <= LARGE:
        loss = math.log1p(part * math.expm1(inside))
    else:
        loss = inside + math.log(part + (1 - part) * math.exp(-inside))
    return min(loss * (1 + ROUNDING), epsilon)


def inside_sample(epsilon: float, share: Fraction) -> float:
    """The inverse: what may be spent on a sample of this share to cost ``epsilon`` on the table; rounded down."""
    if share == 1 or math.isinf(epsilon):
        return epsilon
    part = float(share)
    if epsilon <= 1:
        inside = math.log1p(math.expm1(epsilon) / part)
    else:
        inside = epsilon - math.log(part) + math.log1p(-(1 - part) * math.exp(-epsilon))
    while inside > epsilon and outside_sample(inside, share) > epsilon:
        inside = math.nextafter(inside * (1 - ROUNDING), 0)
    return max(inside, epsilon)
