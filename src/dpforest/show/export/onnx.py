"""Turns a released forest into a graph of ONNX. Released values only.

Splits send sets of codes to any number of children, which the tree operators of ONNX cannot say. So the graph walks as
``Forest`` does, with plain tensor operators: values become codes, then all records go down all trees one level at a time.
"""

from importlib.metadata import version
from typing import Any

import numpy as np

from dpforest.common.text import to_json
from dpforest.errors import MissingExtraError, ParameterError
from dpforest.forest.tree import Forest
from dpforest.schema import SECONDS_OF_DAY, Bounded, Categorical, Classes, Date
from dpforest.schema.domain import WEEKDAYS, Derived
from dpforest.schema.grid import FIRST_SECOND, LAST_SECOND
from dpforest.show.export.json import (
    DistinctSplits,
    is_number,
    json_value,
    kind_of,
    met_cuts,
    none_code,
    texts_of,
    valid_text,
)

# Operators of these versions are known to every runtime since 2022.
OPSET, ML_OPSET, IR_VERSION = 17, 3, 8
OUTPUTS = ("label", "probabilities", "prediction")
# Days from 0000-03-01, a Wednesday, to 1970-01-01.
SINCE_MARCH, MARCH_WEEKDAY = 719_468, 2
# A file of ONNX cannot be larger.
MOST_BYTES = (1 << 31) - (1 << 20)


def onnx_model(forest: Forest) -> bytes:
    """The forest as the bytes of an ``.onnx`` file."""
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("An export to ONNX", "onnx") from None

    _check_lists(forest)
    names = input_names(forest.domain.column_names)
    graph = _Graph(onnx, names)
    codes = graph.add("Concat", *(_code(graph, forest, feature) for feature in range(forest.domain.n_features)), axis=1)
    _add_outputs(graph, forest, _shares(graph, forest, _votes(graph, forest, codes)))
    if graph.n_bytes > MOST_BYTES:
        raise ParameterError(f"The forest takes {graph.n_bytes} bytes; a file of ONNX holds {MOST_BYTES}. Use fewer trees.")
    model = onnx.helper.make_model(
        graph.finished(),
        producer_name="dpforest",
        producer_version=version("dpforest"),
        ir_version=IR_VERSION,
        opset_imports=[onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", ML_OPSET)],
    )
    onnx.helper.set_model_props(model, _metadata(forest, names))
    return model.SerializeToString()


def _check_lists(forest: Forest) -> None:
    """Raise ``ParameterError`` for a feature that is put into buckets."""
    for name, part in zip(forest.domain.names, forest.domain.features, strict=True):
        if isinstance(part, Categorical) and not part.categories:
            raise ParameterError(
                f"Feature {name!r} is put into buckets by the MD5 of its text, and ONNX has no such operator. Export to "
                "SQL or JSON instead, or train with a list of its categories in the schema."
            )


def input_names(features: tuple[str, ...]) -> list[str]:
    """The name of the input of each feature: its own, or ``input_<index>`` where ONNX cannot have that."""
    kept = [name and "\0" not in name and name not in OUTPUTS and valid_text(name) == name for name in features]
    taken = {name for name, keeps in zip(features, kept, strict=True) if keeps}
    names = []
    for index, (name, keeps) in enumerate(zip(features, kept, strict=True)):
        if not keeps:
            name = f"input_{index}"
            while name in taken:
                name += "_"
            taken.add(name)
        names.append(name)
    return names


def _metadata(forest: Forest, names: list[str]) -> dict[str, str]:
    dates = {each.column for each in forest.domain.derived if isinstance(each.part, Date)}
    content: dict[str, Any] = {"features": list(forest.domain.column_names), "inputs": names}
    content |= {"seconds_since_1970_utc": [names[column] for column in sorted(dates)]} if dates else {}
    if isinstance(forest.target, Classes):
        content["classes"] = [json_value(label) for label in forest.target.labels]
    return {"produced_by": "dpforest"} | {name: to_json(value) for name, value in content.items()}


class _Graph:
    """A graph of ONNX under construction; its own names begin with a prefix that no input has."""

    def __init__(self, onnx: Any, inputs: list[str]) -> None:
        self.onnx = onnx
        self.inputs: list[Any] = []
        self.n_bytes = 0
        self._names = inputs
        self._nodes: list[Any] = []
        self._tensors: list[Any] = []
        self._outputs: list[Any] = []
        self._prefix = "_"
        while any(name.startswith(self._prefix) for name in inputs):
            self._prefix += "_"

    def _fresh(self) -> str:
        return f"{self._prefix}{len(self._nodes) + len(self._tensors)}"

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        array, name = np.asarray(values, dtype=dtype), self._fresh()
        self._tensors.append(self.onnx.numpy_helper.from_array(array, name))
        self.n_bytes += array.nbytes
        return name

    def add(self, operator: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or self._fresh()
        self._nodes.append(self.onnx.helper.make_node(operator, inputs, [output], **attributes))
        return output

    def input(self, index: int, kind: str) -> str:
        """The name of a column's input, which is added the first time."""
        if index == len(self.inputs):
            self.inputs.append(self._described(self._names[index], kind, 1))
        return self._names[index]

    def output(self, value: str, name: str, kind: str, *width: int) -> None:
        self._outputs.append(self._described(self.add("Identity", value, output=name), kind, *width))

    def whole(self, value: str) -> str:
        return self.add("Cast", value, to=self.onnx.TensorProto.INT64)

    def _described(self, name: str, kind: str, *width: int) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, getattr(self.onnx.TensorProto, kind), ["N", *width])

    def finished(self) -> Any:
        return self.onnx.helper.make_graph(self._nodes, "forest", self.inputs, self._outputs, self._tensors)


def _code(graph: _Graph, forest: Forest, feature: int) -> str:
    """The name of a new tensor with the codes of a feature, ``(n_records, 1)``."""
    own, part = forest.domain.derived[feature], forest.domain.features[feature]
    if own.of == "weekday":
        value = graph.input(own.column, "DOUBLE")
        code, missing = _of_date(graph, own, value), len(WEEKDAYS) + 1
    elif not isinstance(part, Categorical):
        value = graph.input(own.column, "DOUBLE")
        is_date = isinstance(part, Date) or own.of != "value"
        asked = graph.add("Cast", _of_date(graph, own, value), to=graph.onnx.TensorProto.DOUBLE) if is_date else value
        passed = graph.add("GreaterOrEqual", asked, graph.constant([met_cuts(forest.domain, feature)], np.float64))
        code = graph.add("ReduceSum", graph.whole(passed), graph.constant([1]))
        missing = len(forest.domain.cuts[feature]) + 1
    elif is_number(part.categories):
        value = graph.input(own.column, "DOUBLE")
        other = len(part.categories)
        same = graph.add("Equal", value, graph.constant([[float(item) for item in part.categories]], np.float64))  # type: ignore[arg-type]
        # At most one category is equal; what it adds turns the code of "other" into its own.
        steps = graph.add("Mul", graph.whole(same), graph.constant([np.arange(other) - other]))
        code = graph.add("Add", graph.add("ReduceSum", steps, graph.constant([1])), graph.constant(other))
        missing = other + 1
    else:
        return _text_code(graph, own.column, part)
    return graph.add("Where", graph.add("IsNaN", value), graph.constant(missing), code)


def _of_date(graph: _Graph, feature: Derived, seconds: str) -> str:
    """The name of a new tensor of whole numbers: what a feature asks of seconds since 1970; of a weekday its index."""

    def whole(operator: str, value: str, number: int) -> str:
        return graph.add(operator, value, graph.constant(number))

    ends = (graph.constant(end, np.float64) for end in (FIRST_SECOND, LAST_SECOND))
    known = graph.add("Where", graph.add("IsNaN", seconds), graph.constant(0, np.float64), seconds)
    # From 0000-03-01 on, so that nothing is negative: ONNX rounds quotients of whole numbers towards 0.
    second = whole("Add", graph.whole(graph.add("Floor", graph.add("Clip", known, *ends))), SINCE_MARCH * SECONDS_OF_DAY)
    day = whole("Div", second, SECONDS_OF_DAY)
    if feature.of == "weekday":
        return whole("Mod", whole("Add", day, MARCH_WEEKDAY), len(WEEKDAYS))
    if feature.of == "hour":
        return whole("Div", whole("Mod", second, SECONDS_OF_DAY), 3600)
    if feature.of == "value":
        is_second = isinstance(feature.part, Date) and feature.part.time
        return whole("Sub", second, SINCE_MARCH * SECONDS_OF_DAY) if is_second else whole("Sub", day, SINCE_MARCH)
    # Years that begin in March have their leap day last, and lengths of months that a line goes through.
    day = whole("Mod", day, 146_097)
    leaps = graph.add(
        "Sub", whole("Div", day, 36_524), graph.add("Add", whole("Div", day, 1_460), whole("Div", day, 146_096))
    )
    year = whole("Div", graph.add("Add", day, leaps), 365)
    leaps = graph.add("Sub", whole("Div", year, 4), whole("Div", year, 100))
    of_year = graph.add("Sub", day, graph.add("Add", whole("Mul", year, 365), leaps))
    month = whole("Add", whole("Div", whole("Add", whole("Mul", of_year, 5), 2), 153), 2)
    return whole("Add", whole("Mod", month, 12), 1)


def _text_code(graph: _Graph, feature: int, part: Categorical) -> str:
    indices = {text: index for index, text in enumerate(texts_of(part.categories)) if part.categories[index] is not None}
    indices.setdefault("", none_code(part.categories))
    value = graph.input(feature, "STRING")
    return graph.add(
        "LabelEncoder",
        value,
        domain="ai.onnx.ml",
        keys_strings=[*indices],
        values_int64s=[*indices.values()],
        default_int64=len(part.categories),
    )


def _votes(graph: _Graph, forest: Forest, codes: str) -> str:
    """The name of a new tensor with the summed votes of the leaves that records reach, ``(n_records, n_values)``."""
    splits = DistinctSplits.of(forest)
    routes = [split.routes for split in splits.distinct]
    starts = np.cumsum([0, *map(len, routes)])
    # A leaf is its own only child: behind all routes stand as many zeros as there are codes.
    flat = np.concatenate([*routes, np.zeros(forest.domain.n_codes.max(), dtype=np.int64)])
    leaves = np.where(forest.is_leaf, np.arange(forest.n_nodes), forest.first_children)
    tables = [np.maximum(forest.features, 0), starts[splits.of_node], leaves]
    feature_of, start_of, child_of = (graph.constant(table) for table in tables)
    route_of = graph.constant(flat)

    first = graph.add("Gather", codes, graph.constant([0]), axis=1)
    nothing = graph.add("Mul", first, graph.constant(0))
    reached = graph.add("Add", nothing, graph.constant([np.arange(forest.n_trees)]))
    for _ in range(forest.depth):
        code = graph.add("GatherElements", codes, graph.add("Gather", feature_of, reached), axis=1)
        route = graph.add("Gather", route_of, graph.add("Add", graph.add("Gather", start_of, reached), code))
        reached = graph.add("Add", graph.add("Gather", child_of, reached), route)
    votes = graph.add("Gather", graph.constant(forest.votes, np.float64), reached)
    return graph.add("ReduceSum", votes, graph.constant([1]), keepdims=0)


def _shares(graph: _Graph, forest: Forest, totals: str) -> str:
    """The name of a new tensor with the shares that summed votes become by the link of the forest."""
    if forest.link == "softmax":
        totals = graph.add("Exp", graph.add("Sub", totals, graph.add("ReduceMax", totals, axes=[1])))
    elif forest.link == "sum":
        totals = graph.add("Clip", totals, graph.constant(0, np.float64), graph.constant(1, np.float64))
    return graph.add("Div", totals, graph.add("ReduceSum", totals, graph.constant([1])))


def _add_outputs(graph: _Graph, forest: Forest, shares: str) -> None:
    target = forest.target
    if isinstance(target, Bounded):
        share = graph.add("Gather", shares, graph.constant([1]), axis=1)
        scaled = graph.add("Mul", share, graph.constant(target.span, np.float64))
        graph.output(graph.add("Add", scaled, graph.constant(target.range[0], np.float64)), "prediction", "DOUBLE", 1)
        return
    kind = kind_of(target.labels)
    forms: dict[str, Any] = {"boolean": ("BOOL", bool), "whole": ("INT64", np.int64), "number": ("DOUBLE", float)}
    type_, dtype = forms.get(kind, ("STRING", object))
    labels = graph.constant(target.labels if kind in forms else texts_of(target.labels), dtype)
    best = graph.add("ArgMax", shares, axis=1, keepdims=0)
    graph.output(graph.add("Gather", labels, best), "label", type_)
    graph.output(shares, "probabilities", "DOUBLE", target.n_values)
