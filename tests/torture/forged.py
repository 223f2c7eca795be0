"""Model files that nobody fitted, with a digest that fits."""

import json

import matplotlib
import numpy as np
from tests.torture.mutations import entries_of
from tests.torture.samples import classifier, rows

from dpforest import plots
from dpforest.common.files import packed
from dpforest.evaluation import evaluate_privately
from dpforest.model.file import _array_bytes, _digest


def one_tree():
    return classifier(max_depth=1, n_trees=1, recipe="jagannathan-2009")


def nodes(variance=0.0, n_values=2, **numbers):
    """Arrays of the nodes of one tree: numbers that are given for each, and the same outputs for all."""
    n_nodes = len(numbers["parents"])
    return {
        "trees": np.zeros(n_nodes, dtype="<i8"),
        **{name: array.astype("<i8") for name, array in numbers.items()},
        **dict.fromkeys(("counts", "shares", "votes"), np.full((n_nodes, n_values), 1 / n_values)),
        "variances": np.full(n_nodes, variance),
    }


def chain_of_nodes(n_nodes, n_codes):
    """A forged model: a long chain of nodes that all share one wide route, small in the file."""
    place = np.arange(n_nodes)
    parents = np.concatenate([[-1], place[:-1] // 2 * 2])
    is_leaf = (place % 2 == 1) | (place == n_nodes - 1)
    splits = np.where(is_leaf, -1, 0)
    arrays = nodes(
        parents=parents,
        levels=np.where(place == 0, 0, parents // 2 + 1),
        first_children=np.where(is_leaf, -1, place + 1),
        features=splits,
        splits=splits,
    )
    return one_tree(), arrays | {"routes": np.zeros((1, n_codes), dtype="<u2")}


def forge(path, arrays, change=lambda facts: None):
    """Put other arrays, and a changed header, in the file of a model, with a digest that fits."""
    entries = entries_of(path.read_bytes())
    facts = json.loads(entries.pop("model.json"))
    facts.pop("digest")
    change(facts)
    entries |= {f"{name}.npy": _array_bytes(array) for name, array in arrays.items()}
    facts["digest"] = _digest(facts, entries)
    path.write_bytes(packed({"model.json": json.dumps(facts, indent=1).encode(), **entries}))


def star_file(path, n_children):
    """A model file with one split, which sends each of many categories to a child of its own."""
    model = one_tree()
    model.save(path)
    ends = {"parents": (-1, 0), "levels": (0, 1), "first_children": (1, -1), "splits": (0, -1)}
    ends["features"] = ([*model.schema_.features].index("sex"), -1)
    is_root = np.arange(n_children + 1) == 0
    arrays = nodes(variance=1.0, **{name: np.where(is_root, *values) for name, values in ends.items()})
    arrays["routes"] = np.arange(n_children, dtype="<u2")[None]
    names = [f"c{number}" for number in range(n_children - 2)]
    forge(path, arrays, lambda facts: facts["schema"]["features"]["sex"].update(categories=names))
    return path


def leaf_file(path, n_labels):
    """A model file with a single leaf, which has many labels."""
    one_tree().save(path)
    ends = {"parents": -1, "levels": 0, "first_children": -1, "features": -1, "splits": -1}
    arrays = nodes(variance=1.0, n_values=n_labels, **{name: np.array([value]) for name, value in ends.items()})
    arrays["routes"] = np.zeros((0, 200), dtype="<u2")
    names = [f"label {number}" for number in range(n_labels)]
    forge(path, arrays, lambda facts: facts["schema"]["target"].update(labels=names))
    return path


def works(model, page):
    """All that can be made of a model, by its names."""
    matplotlib.use("Agg")
    figures = (plots.tree, plots.importances, plots.leaf_noise)
    return {
        "rules": model.forest_.rules,
        "text": model.forest_.rules_text,
        "report": lambda: model.save_report(page),
        "sql": lambda: model.to_sql("t"),
        "json": model.to_json,
        "onnx": model.to_onnx,
        "html": lambda: [part._repr_html_() for part in (model, model.schema_, model.privacy_, model.ledger_)],
        "effects": lambda: plots.effects(model),
        "plots": lambda: [plot(model) for plot in figures],
        "evaluation": lambda: evaluate_privately(model, rows(1), [model.classes_[0]], 1.0).to_dict(),
    }
