"""Model files: plain arrays and a JSON header in an uncompressed zip. Data, never code; public values only."""

import hashlib
import io
import json
import math
import platform
import re
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.common.files import packed, read_whole, unpacked, whole_file
from dpforest.common.text import jsonable, unboxed
from dpforest.errors import ChangedModelWarning, DPForestError, ModelFileError, OutputError
from dpforest.forest.tree import Estimate, Forest
from dpforest.model.checks import check_header, check_size, check_structure
from dpforest.model.class_weights import check_class_weight
from dpforest.parts.recipe import Recipe
from dpforest.privacy.amounts import as_written
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.schema import Bounded, Categorical, Schema, Target
from dpforest.schema.domain import MOST_LISTED, Derived, Domain, can_list, derived

FORMAT = "dpforest-model"
VERSION = 2
HEADER = "model.json"
MOST_BYTES = 1 << 31
# As objects of Python a header takes some thirty times its size.
MOST_HEADER_BYTES = 1 << 26
# What reading a file that nobody wrote on purpose can raise.
DAMAGE = (DPForestError, ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)
# The head of an array as numpy writes it; read without evaluating anything.
NUMPY_HEAD = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(<i8|<u2|<f8)', 'fortran_order': False, 'shape': "
    rb"\((\d{1,12}),(?: (\d{1,12}))?\), \} *\n", re.DOTALL,
)  # fmt: skip
# Parameters of an estimator that its file does not carry: the schema is there as it was fitted, the statement names models.
NOT_KEPT = ("schema", "budget", "earlier_model")
CHANGED = "the bytes of its file do not match their digest: it was damaged, or changed after it was saved"
# Type and number of dimensions of each array.
ARRAYS = {
    "trees": ("<i8", 1), "parents": ("<i8", 1), "levels": ("<i8", 1), "first_children": ("<i8", 1), "features": ("<i8", 1),
    "splits": ("<i8", 1), "routes": ("<u2", 2), "counts": ("<f8", 2), "variances": ("<f8", 1), "shares": ("<f8", 2),
    "votes": ("<f8", 2), "noise": ("<f8", 2), "cuts": ("<f8", 1), "n_cuts": ("<i8", 1),
}  # fmt: skip


def save_model(model: Any, path: str | Path) -> None:
    """Write a fitted estimator to a model file."""
    header, blobs = _content(model)
    check_size(header["ledger"])
    text = _header_text(header)
    if len(text) > MOST_HEADER_BYTES or len(text) + sum(map(len, blobs.values())) > MOST_BYTES:
        raise ModelFileError(
            f"The model is larger than a file of models can be ({MOST_BYTES} bytes). Use fewer trees or levels."
        )
    try:
        with whole_file(path, over_models=True) as file:
            file.write(packed({HEADER: text, **blobs}))
    except OutputError as error:
        raise ModelFileError(str(error)) from None


def model_digest(model: Any) -> str | None:
    """The hash that the file of a fitted estimator carries; None if no file can hold its labels."""
    try:
        return _content(model)[0]["digest"]
    except ModelFileError:
        return None


def versions() -> dict[str, str]:
    """The versions of what a model is made with, by name."""
    return {"dpforest": _own_version(), "python": platform.python_version(), "numpy": np.__version__}


def today() -> str:
    """The date in UTC, such as ``2026-07-25``."""
    return datetime.now(UTC).date().isoformat()


@cache
def _own_version() -> str:
    """The version of the installed package, looked up once: it takes as long as a small fit."""
    return version("dpforest")


def _content(model: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The header, with a hash of all, and the arrays of a model file."""
    forest: Forest = model.forest_
    arrays = {name: getattr(forest, name) for name in ARRAYS if hasattr(forest, name)}
    arrays["cuts"] = np.concatenate([np.empty(0), *forest.domain.cuts])
    arrays["n_cuts"] = np.array([len(cuts) for cuts in forest.domain.cuts])
    blobs = {f"{name}.npy": _array_bytes(array.astype(ARRAYS[name][0])) for name, array in arrays.items()}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "estimator": type(model).__name__,
        "parameters": _parameters(model),
        "schema": model.schema_.to_dict(),
        "feature_names": list(getattr(model, "feature_names_in_", [])) or None,
        "privacy": model.privacy_.to_dict(),
        "ledger": model.ledger_.to_dict(),
        "draws": forest.draws,
        "link": forest.link,
        "n_records": None if forest.n_records is None else asdict(forest.n_records),
        "made_with": model.made_with_,
        # Earlier files have no date; without the entry, a model that was read from one keeps its digest.
        **({"trained_on": model.trained_on_} if model.trained_on_ else {}),
        **({"lists": forest.domain.lists} if model.schema_.learnt else {}),
        **({"vote_noise": forest.vote_noise.tolist()} if len(forest.vote_noise) else {}),
        **({"n_earlier": forest.n_earlier} if forest.n_earlier else {}),
    }
    if isinstance(forest.target, Bounded) and forest.target != model.schema_.target:
        header["target_range"] = list(forest.target.range)
    try:
        tagged = _tag(header)
        return {**tagged, "digest": _digest(tagged, blobs)}, blobs
    except (TypeError, ValueError):
        raise ModelFileError(
            "Only text, finite numbers, booleans and tuples of these can be labels or categories of a model that is saved."
        ) from None


def read_model(path: str | Path, allow_changed: bool = False) -> tuple[dict[str, Any], Forest]:
    """The header and the forest of a model file; refuses a file that is damaged or from elsewhere.

    With ``allow_changed``, bytes that do not match their digest are a warning, and the statement no longer holds. What
    cannot be a forest is refused all the same.
    """
    try:
        content = read_whole(path, MOST_BYTES)
        header, blobs, is_changed = _unpack(content, path)
        if is_changed and not allow_changed:
            raise ModelFileError(
                f"{path} is not what was saved: {CHANGED}. Get a fresh copy. (load_model(path, allow_changed=True) reads it "
                "without any guarantee.)"
            )
        forest = _understand(header, blobs)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or 'not a file of models'}.") from None
    except ModelFileError:
        raise
    except OutputError as error:
        raise ModelFileError(f"{error} It is not a dpforest model.") from None
    except DAMAGE:
        raise ModelFileError(f"{path} is damaged or not a dpforest model.") from None
    if is_changed:
        warnings.warn(f"The model of {path} has no guarantee: {CHANGED}.", ChangedModelWarning, stacklevel=3)
        privacy = header["privacy"]
        header["privacy"] = replace(privacy, holds=False, reasons=(CHANGED, *(r for r in privacy.reasons if r != CHANGED)))
    return header, forest


def _unpack(content: bytes, path: str | Path) -> tuple[dict[str, Any], dict[str, memoryview], bool]:
    """Header and arrays as they stand in the file, and whether any byte of it is not what was saved."""
    entries = unpacked(content, {HEADER, *(f"{name}.npy" for name in ARRAYS)})
    text = bytes(entries[HEADER])
    if len(text) > MOST_HEADER_BYTES:
        raise ModelFileError(f"{path} is not a dpforest model: its header is larger than {MOST_HEADER_BYTES} bytes.")
    tagged = json.loads(text.decode("utf-8"))
    if tagged["format"] != FORMAT or tagged["version"] != VERSION:
        raise ModelFileError(f"{path} is a model of another format; this version reads {VERSION}.")
    is_canonical = text == _header_text(tagged) and content == packed(entries)
    digest = tagged.pop("digest", None)
    blobs = {name: blob for name, blob in entries.items() if name != HEADER}
    return _untag(tagged) | {"digest": digest}, blobs, not is_canonical or digest != _digest(tagged, blobs)


def _understand(header: dict[str, Any], blobs: Mapping[str, memoryview]) -> Forest:
    """The forest of a file, checked; in ``header``, entries are replaced by the objects that they stand for."""
    check_header(header)
    arrays = {name: _read_array(blobs[f"{name}.npy"], *form) for name, form in ARRAYS.items()}
    header["schema"] = schema = Schema.from_dict(header["schema"])
    header["privacy"] = Statement.from_dict(header["privacy"])
    header["ledger"] = Ledger.from_dict(header["ledger"])
    parameters = header["parameters"]
    parameters["epsilon"] = float(parameters["epsilon"])
    if isinstance(weights := parameters.get("class_weight"), list):
        parameters["class_weight"] = dict(weights)
    if "class_weight" in parameters:
        check_class_weight(parameters["class_weight"], schema.target)
    features = derived(schema)
    cuts = _split_cuts(arrays.pop("cuts"), arrays.pop("n_cuts"), features)
    domain = Domain(features, cuts).with_lists(_lists(header.get("lists", {}), schema))
    measured = header["n_records"]
    forest = Forest(
        domain=domain,
        target=_released(schema.target, header.get("target_range")),
        draws=header["draws"],
        link=header["link"],
        n_records=None if measured is None else Estimate(**measured),
        vote_noise=np.array(header.get("vote_noise", []), dtype=np.float64),
        n_earlier=header.get("n_earlier", 0),
        **arrays,
    )
    check_structure(forest)
    return forest


def _released(target: Target, ends: Any) -> Target:
    """The target with the range that a fit released, if it did, checked: in order, and within the range of the schema."""
    if ends is None:
        return target
    lower, upper = ends
    if not isinstance(target, Bounded) or not target.range[0] <= lower < upper <= target.range[1]:
        raise ModelFileError("The range of the model's target is not within its bounds.")
    return replace(target, lower=lower, upper=upper)


def _lists(lists: Any, schema: Schema) -> dict[str, list[str]]:
    """The learnt lists of a file, checked: one for each such column of the schema, of possible values."""
    if not isinstance(lists, dict) or set(lists) != set(schema.learnt):
        raise ModelFileError("The lists of the model do not fit its features.")
    for texts in lists.values():
        sound = isinstance(texts, list) and len(texts) <= MOST_LISTED and all(isinstance(text, str) for text in texts)
        if not sound or len(set(texts)) < len(texts) or not all(map(can_list, texts)):
            raise ModelFileError("A list of the model has values that no fit would have named.")
    return lists


def _split_cuts(cuts: np.ndarray, n_cuts: np.ndarray, features: tuple[Derived, ...]) -> tuple[np.ndarray, ...]:
    """The cuts of each feature, checked: in increasing order, and none for a categorical feature."""
    numeric = [not isinstance(each.part, Categorical) for each in features]
    if len(n_cuts) != len(numeric) or (n_cuts < 0).any() or (n_cuts > len(cuts)).any() or n_cuts.sum() != len(cuts):
        raise ModelFileError("The cuts of the model do not fit its features.")
    parts = tuple(np.split(cuts, np.cumsum(n_cuts)[:-1]))
    if any(len(part) and not is_numeric for part, is_numeric in zip(parts, numeric, strict=True)):
        raise ModelFileError("The cuts of the model do not fit its features.")
    if not np.isfinite(cuts).all() or any((part[1:] <= part[:-1]).any() for part in parts):
        raise ModelFileError("The cuts of the model are not in order.")
    return parts


def _parameters(model: Any) -> dict[str, Any]:
    parameters = {name: value for name, value in model.get_params(deep=False).items() if name not in NOT_KEPT}
    if isinstance(parameters["recipe"], Recipe):
        parameters["recipe"] = parameters["recipe"].name
    # A seed may be a live generator; that the noise was seeded is in the statement.
    parameters["random_state"] = None
    for name in ("epsilon", "delta"):
        parameters[name] = jsonable(as_written(parameters[name]))
    weights = parameters.pop("class_weight", None)
    if weights is not None:  # as a list, since labels may be other than text
        check_class_weight(weights, model.schema_.target)
        is_text = isinstance(weights, str)
        parameters["class_weight"] = weights if is_text else [[unboxed(part) for part in pair] for pair in weights.items()]
    return {name: unboxed(value) for name, value in parameters.items()}


def _array_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def _read_array(blob: memoryview, dtype: str, n_dimensions: int) -> np.ndarray:
    """An array of the expected form; its announced size must be the actual one."""
    head = NUMPY_HEAD.match(bytes(blob[:256]))
    if head is None or head[1].decode() != dtype or int.from_bytes(blob[8:10], "little") + 10 != head.end():
        raise ModelFileError("An array of the model has another format.")
    shape = tuple(int(size) for size in head.groups()[1:] if size is not None)
    if len(shape) != n_dimensions or math.prod(shape) * np.dtype(dtype).itemsize != len(blob) - head.end():
        raise ModelFileError("An array of the model has the wrong type or size.")
    return np.ndarray(shape, dtype, blob, head.end()).copy()


def _header_text(header: dict[str, Any]) -> bytes:
    return json.dumps(header, indent=1, allow_nan=False).encode()


def _digest(header: dict[str, Any], blobs: Mapping[str, bytes | memoryview]) -> str:
    """A hash of all content, by which a changed file is refused."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True, allow_nan=False).encode())
    for name in sorted(blobs):
        digest.update(name.encode() + b"\0" + hashlib.sha256(blobs[name]).digest())
    return digest.hexdigest()


def _tag(value: Any) -> Any:
    """A value as JSON can hold it: a tuple, as labels may be, becomes an object, which a list of labels never holds."""
    if isinstance(value, tuple):
        return {"(tuple)": [_tag(item) for item in value]}
    if isinstance(value, list):
        return [_tag(item) for item in value]
    return {key: _tag(item) for key, item in value.items()} if isinstance(value, dict) else value


def _untag(value: Any, in_list: bool = False) -> Any:
    if isinstance(value, list):
        return [_untag(item, True) for item in value]
    if not isinstance(value, dict):
        return value
    if in_list and set(value) == {"(tuple)"}:
        return tuple(_untag(item, True) for item in value["(tuple)"])
    return {key: _untag(item) for key, item in value.items()}
