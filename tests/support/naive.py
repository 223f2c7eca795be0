"""Slow, obvious twins of the fast code: plain Python, one record, one node and one code at a time."""

import math
import re
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise, product

import numpy as np

from dpforest.forest.tree import SCORE_STEPS, Forest
from dpforest.records.base import MOST_WEIGHT
from dpforest.records.scores import POWERS
from dpforest.schema import FINE_STEPS, TARGET_STEPS, Categorical, Classes


def is_missing(value):
    return value is None or value != value


def code_of(value, feature, cuts):
    """Code of one value: its bin or its place among the categories, then "other", then missing."""
    if isinstance(feature, Categorical):
        for index, category in enumerate(feature.categories):
            if value == category:
                return index
        return len(feature.categories) + (1 if is_missing(value) else 0)
    if is_missing(value):
        return len(cuts) + 1
    clipped = max(feature.lower, min(feature.upper, value))
    return sum(1 for cut in cuts if cut <= clipped)


ISO_8601 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?(?:Z|([+-])(\d\d):(\d\d))?)?", re.ASCII
)


def seconds_of_text(text):
    """Seconds since 1970 of a date as ISO 8601 writes it; None if it is none."""
    found = ISO_8601.fullmatch(text)
    if found is None:
        return None
    *fields, sign, hours, minutes = (part if part in ("+", "-") else int(part or 0) for part in found.groups())
    if hours > 23 or minutes > 59:
        return None
    try:
        moment = datetime(*fields)
    except ValueError:
        return None
    ahead = (hours * 60 + minutes) * 60 * (-1 if sign == "-" else 1)
    return (moment - datetime(1970, 1, 1)) // timedelta(seconds=1) - ahead


def target_code_of(value, target):
    """Place of a label, or step of the fine target grid; -1 for a record to leave out."""
    if isinstance(target, Classes):
        labels = list(target.labels)
        label = value if value in labels else target.other
        return labels.index(label) if label in labels else -1
    if is_missing(value):
        return -1
    share = (max(target.lower, min(target.upper, value)) - target.lower) / (target.upper - target.lower)
    return round(share * FINE_STEPS)


def seen_code_of(fine):
    """What trees see of a step of the fine grid: the nearest of TARGET_STEPS, halves upwards."""
    return math.floor(Fraction(fine, FINE_STEPS) * TARGET_STEPS + Fraction(1, 2))


def statistics_of(target, target_code):
    """What one record adds to the statistics of its node."""
    if isinstance(target, Classes):
        return [int(target_code == index) for index in range(len(target.labels))]
    return [1, target_code, target_code**2]


def _weighted_records(target_codes, weights, positions):
    """(record, node, weight) for each record in each of its trees."""
    for copy, record in product(range(len(positions)), range(len(target_codes))):
        yield record, int(positions[copy][record]), int(weights[copy][record]) if len(weights) else 1


def count_codes(codes, domain, target, target_codes, weights, positions, first, wanted):
    """Statistics ``[node][column][place]`` of the nodes from ``first``, for the features that each wants."""
    counts = np.zeros((len(wanted), sum(domain.n_codes), target.width), dtype=int).tolist()
    for record, node, weight in _weighted_records(target_codes, weights, positions):
        if not first <= node < first + len(wanted):
            continue
        for feature in range(len(codes)):
            if wanted[node - first][feature]:
                column = sum(domain.n_codes[:feature]) + int(codes[feature][record])
                for index, amount in enumerate(statistics_of(target, int(target_codes[record]))):
                    counts[node - first][column][index] += weight * amount
    return counts


def sum_residual_codes(codes, domain, residuals, positions, first, wanted):
    """Sums ``[node][column][place]`` of the rows of ``residuals``, one for each record, for the features that are wanted."""
    sums = np.zeros((len(wanted), sum(domain.n_codes), residuals.shape[1]), dtype=int).tolist()
    for record, added in enumerate(residuals.tolist()):
        node = int(positions[0][record]) - first
        if not 0 <= node < len(wanted):
            continue
        for feature in range(len(codes)):
            if wanted[node][feature]:
                own = sums[node][sum(domain.n_codes[:feature]) + int(codes[feature][record])]
                for index, amount in enumerate(added):
                    own[index] += amount
    return sums


def count_nodes(target, target_codes, weights, positions, first, n_nodes):
    """Statistics ``[node][place]`` of the nodes from ``first``."""
    counts = [[0] * target.width for _ in range(n_nodes)]
    for record, node, weight in _weighted_records(target_codes, weights, positions):
        if first <= node < first + n_nodes:
            for index, amount in enumerate(statistics_of(target, int(target_codes[record]))):
                counts[node - first][index] += weight * amount
    return counts


def descend(codes, positions, first, features, routes, first_children):
    """Positions after each record at a node that was split went to its child."""
    moved = [[int(node) for node in copy] for copy in positions]
    for copy in moved:
        for record, node in enumerate(copy):
            index = node - first
            if 0 <= index < len(features) and features[index] >= 0:
                code = codes[features[index]][record]
                copy[record] = int(first_children[index]) + int(routes[index][code])
    return moved


def children_of(counts, children, n_children):
    """Statistics ``[child][place]``, from those of the codes of one feature and the child of each code."""
    sums = [[0] * len(counts[0]) for _ in range(n_children)]
    for statistics, child in zip(counts, children, strict=False):
        for index, amount in enumerate(statistics):
            sums[child][index] += int(amount)
    return sums


def divides(children, held):
    """Whether codes that the node can hold go to different children."""
    return len({int(children[code]) for code in held}) > 1


def gini_terms(children):
    """``sum(n_c**2) / n - n`` of each child, exactly; 0 for an empty one."""
    sizes = [sum(child) for child in children]
    squares = [sum(c * c for c in child) for child in children]
    return [Fraction(square, n) - n if n else Fraction(0) for square, n in zip(squares, sizes, strict=True)]


def squared_errors(children):
    """Sum of squared distances from the mean of each child, exactly, in squared steps."""
    return [Fraction(q) - Fraction(s * s, n) if n else Fraction(0) for n, s, q in children]


def max_operator(children):
    return sum(max(child) for child in children)


def balance(sizes):
    return sum(sizes) - max(sizes)


def entropy(children):
    """``sum over children of (sum(g(n_c)) - g(n))`` in nats, g(x) = x ln x."""

    def g(x):
        return x * math.log(x) if x else 0.0

    return sum(sum(g(c) for c in child) - g(sum(child)) for child in children)


def entropy_steps(n, units):
    """``units * (g(x+1) - g(x))`` for x < n, each rounded down, with digits to spare."""
    with localcontext() as context:
        context.prec = 60
        values = [x * Decimal(x).ln() if x else Decimal(0) for x in range(n + 1)]
        return [int(units * (after - before)) for before, after in pairwise(values)]


def softmax(scores):
    """Class shares for scores in whole steps."""
    best = max(scores)
    exps = [math.exp((score - best) / SCORE_STEPS) for score in scores]
    total = math.fsum(exps)
    return [part / total for part in exps]


def residuals(scores, label):
    """What a record of this class adds for each class, and its weight, as real numbers of records."""
    shares, cap = softmax(scores), 1 - 1 / len(scores)
    others = [share if index != label else 0.0 for index, share in enumerate(shares)]
    wrong = math.fsum(others)
    missed = [-share / max(wrong, cap) for share in others]
    missed[label] = min(1.0, wrong / cap)
    return missed, min(1.0, wrong / cap)


def whole_residuals(scores, label):
    """The same in whole units, each rounded towards 0: residuals of all classes, then the weight."""
    best = max(scores)
    exps = [int(POWERS[best - score]) if best - score < len(POWERS) else 0 for score in scores]
    n_classes, total, wrong = len(scores), sum(exps), sum(exps) - exps[label]
    weight = min(MOST_WEIGHT, MOST_WEIGHT * n_classes * wrong // (total * (n_classes - 1)))
    capped = n_classes * wrong > (n_classes - 1) * total
    over, factor = (wrong, 1) if capped else (total * (n_classes - 1), n_classes)
    parts = [MOST_WEIGHT * factor * part // over if index != label else 0 for index, part in enumerate(exps)]
    return [sum(parts) if index == label else -part for index, part in enumerate(parts)] + [weight]


def count_leads(scores, labels, width, n_bins):
    """Records ``[bin][class]`` by the lead of the score of their own class over the best other."""
    counts = [[0] * len(scores[0]) for _ in range(n_bins)] if len(scores) else []
    for record, label in zip(scores, labels, strict=True):
        lead = record[label] - max(score for other, score in enumerate(record) if other != label)
        place = sum(lead >= edge * width for edge in range(1 - n_bins // 2, n_bins - n_bins // 2))
        counts[place][label] += 1
    return counts


def side_of(value, centre, reach, most):
    """(weight below, weight above) a centre, in whole units."""
    weight = min(most, abs(value - centre) * most // reach)
    return (0, weight) if value > centre else (weight, 0)


def path(forest, tree, record):
    """Nodes that a record, given as one code for each feature, comes through in one tree."""
    nodes = [tree]
    while forest.first_children[nodes[-1]] >= 0:
        node = nodes[-1]
        child = forest.routes[forest.splits[node]][record[forest.features[node]]]
        nodes.append(int(forest.first_children[node]) + int(child))
    return nodes


def votes(forest, record):
    """Sum of the votes of the leaves that a record reaches."""
    leaves = [path(forest, tree, record)[-1] for tree in range(forest.n_trees)]
    return [sum(float(forest.votes[leaf][value]) for leaf in leaves) for value in range(forest.votes.shape[1])]


def all_records(domain):
    """Every combination of codes."""
    return list(product(*(range(n_codes) for n_codes in domain.n_codes)))


def value_of(code, feature, cuts):
    """A value of this code: the middle of a bin, a category as people read it, "other", or None for missing."""
    if isinstance(feature, Categorical):
        return [*map(str, feature.categories), "other", "missing"][code]
    edges = [feature.lower, *cuts, feature.upper]
    return None if code > len(cuts) else (edges[code] + edges[code + 1]) / 2


def meets(condition, values):
    """Whether named values meet a condition as ``Forest.rules`` words it."""
    if condition.startswith("("):
        first, *others = condition[1:-1].split(" or ")
        name = next(word for word in first.split() if word in values)
        others = [f"{name} is missing" if part == "missing" else part for part in others]
        return any(meets(part, values) for part in [first, *others])
    name = next(word for word in condition.split() if word in values)
    before, after = condition.split(name, 1)
    value, after = values[name], after.strip()
    if isinstance(value, str):
        sign, _, words = after.rpartition("{") if "{" in after else after.rpartition(" ")
        listed = words.rstrip("}").split(", ")
        return (value in listed) == (sign.strip() in ("=", "in"))
    if after in ("is missing", "is known"):
        return (value is None) == (after == "is missing")
    above = not before or float(before.removesuffix("<= ")) <= value if value is not None else False
    return above and (not after or value < float(after.removeprefix("< ")))


def plant(domain, target, *trees, variance=1.0):
    """A forest from nested lists: a leaf is its counts; a split is (feature, child of each code, children[, counts]).

    A split without counts was not released.
    """
    nodes = [(tree, -1, 0, spec) for tree, spec in enumerate(trees)]
    first_children, features, routes, splits, counts = [], [], [], [], []
    for index, (tree, _, level, spec) in enumerate(nodes):
        if isinstance(spec, list):
            first_children.append(-1), features.append(-1), splits.append(-1), counts.append(spec)
            continue
        feature, route, children, *released = spec
        first_children.append(len(nodes)), features.append(feature), splits.append(len(routes))
        routes.append([*route, *[0] * (max(domain.n_codes) - len(route))])
        counts.append(released[0] if released else [np.nan] * target.n_values)
        # The list grows while it is walked, level by level.
        nodes += [(tree, index, level + 1, child) for child in children]
    counts = np.array(counts, dtype=float)
    return Forest(
        domain=domain,
        target=target,
        trees=np.array([node[0] for node in nodes]),
        parents=np.array([node[1] for node in nodes]),
        levels=np.array([node[2] for node in nodes]),
        first_children=np.array(first_children),
        features=np.array(features),
        splits=np.array(splits),
        routes=np.array(routes, dtype=np.uint16).reshape(-1, max(domain.n_codes)),
        counts=counts,
        variances=np.where(np.isnan(counts[:, 0]), np.nan, variance),
    )


def digits_at_once(n):
    """How many draws below n are made of 32 bits: as many as give at most 2**24 outcomes, and at most 24."""
    return max((k for k in range(1, 25) if n**k <= 1 << 24), default=0)


def draws_below(words, n, n_draws):
    """Uniform integers below n, and how many words of 16 bits they took: digits of 32 bits that are scaled to n**k."""
    words, n_used, values = [int(word) for word in words], 0, []
    k = digits_at_once(n)
    n_words = 2 if k else -(-(n - 1).bit_length() // 16)
    while len(values) < n_draws:
        bits = sum(word << 16 * index for index, word in enumerate(words[n_used : n_used + n_words]))
        n_used += n_words
        number, rest = divmod(bits * n**k, 1 << 32)
        if k and rest >= (1 << 32) % n**k:
            values += [number // n ** (k - 1 - index) % n for index in range(k)]
        if not k and bits % (1 << (n - 1).bit_length()) < n:
            values.append(bits % (1 << (n - 1).bit_length()))
    return values[:n_draws], n_used


def split(domain, reach, routes, indices, chosen, first, most_nodes):
    """(feature, child of each code that can come, first child) of each node, and (parent, codes held) of each child."""
    splits, children = [], []
    n_nodes = first + len(reach)
    is_full = False
    for node, held in enumerate(reach):
        if chosen[node] < 0:
            splits.append((-1, {}, -1))
            continue
        route = indices[node][chosen[node]]
        feature = int(routes.features[route])
        offset = sum(domain.n_codes[:feature])
        child_of = {
            code: int(routes.children(np.array([route]))[0][code])
            for code in range(domain.n_codes[feature])
            if held[offset + code]
        }
        used = sorted(set(child_of.values()))
        is_full = is_full or n_nodes + len(children) + len(used) > most_nodes
        if is_full:
            splits.append((-1, {}, -1))
            continue
        splits.append((feature, {code: used.index(child) for code, child in child_of.items()}, n_nodes + len(children)))
        for child in used:
            own = [
                held[column] and (not 0 <= column - offset < domain.n_codes[feature] or child_of[column - offset] == child)
                for column in range(len(held))
            ]
            children.append((node, [bool(value) for value in own]))
    return splits, children
