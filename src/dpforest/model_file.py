"""Model files: plain arrays and a JSON header in an uncompressed zip. Data, never code; public values only."""

import hashlib
import io
import json
import math
import platform
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.domain import Domain
from dpforest.errors import DPForestError, ModelFileError, OutputError
from dpforest.files import write_whole
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.recipe import Recipe
from dpforest.schema import Numeric, Schema
from dpforest.tree import LINKS, Forest

FORMAT = "dpforest-model"
VERSION = 2
HEADER = "model.json"
MOST_BYTES = 1 << 31
# What reading a file that nobody wrote on purpose can raise.
DAMAGE = (
    zipfile.BadZipFile, DPForestError, ValueError, KeyError, TypeError, IndexError, AttributeError, NotImplementedError,
    RuntimeError, EOFError, OverflowError, RecursionError,
)  # fmt: skip
# Type and number of dimensions of each array.
ARRAYS = {
    "trees": ("<i8", 1), "parents": ("<i8", 1), "levels": ("<i8", 1), "first_children": ("<i8", 1), "features": ("<i8", 1),
    "splits": ("<i8", 1), "routes": ("<u2", 2), "counts": ("<f8", 2), "variances": ("<f8", 1), "shares": ("<f8", 2),
    "votes": ("<f8", 2), "cuts": ("<f8", 1), "n_cuts": ("<i8", 1),
}  # fmt: skip


def save_model(model: Any, path: str | Path) -> None:
    """Write a fitted estimator."""
    header, blobs = _content(model)
    text = json.dumps(header, indent=1, allow_nan=False)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, blob in {HEADER: text.encode(), **blobs}.items():
            # A fixed date: the same model gives the same bytes.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), blob)
    try:
        write_whole(path, buffer.getvalue())
    except OutputError as error:
        raise ModelFileError(str(error)) from None


def model_digest(model: Any) -> str | None:
    """The hash that the file of a fitted estimator carries; None if no file can hold its labels."""
    try:
        return _content(model)[0]["digest"]
    except ModelFileError:
        return None


def versions() -> dict[str, str]:
    """What a model is made with."""
    return {"dpforest": version("dpforest"), "python": platform.python_version(), "numpy": np.__version__}


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
        "made_with": model.made_with_,
    }
    try:
        tagged = _tag(header)
        return {**tagged, "digest": _digest(tagged, blobs)}, blobs
    except (TypeError, ValueError):
        raise ModelFileError(
            "Only text, finite numbers, booleans and tuples of these can be labels or categories of a model that is saved."
        ) from None


def read_model(path: str | Path) -> tuple[dict[str, Any], Forest]:
    """The header and the forest of a model file; refuses a file that is damaged or from elsewhere."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {info.filename: info for info in archive.infolist()}
            if set(entries) != {HEADER, *(f"{name}.npy" for name in ARRAYS)}:
                raise ModelFileError(f"{path} is not a dpforest model.")
            too_large = sum(info.file_size for info in entries.values()) > MOST_BYTES
            if too_large or any(info.compress_type != zipfile.ZIP_STORED for info in entries.values()):
                raise ModelFileError(f"{path} is not a dpforest model: packed or larger than {MOST_BYTES} bytes.")
            blobs = {name: archive.read(name) for name in entries}
        tagged = json.loads(blobs.pop(HEADER))
        digest = tagged.pop("digest")
        header = _untag(tagged)
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise ModelFileError(f"{path} is a model of format {header['version']!r}; this version reads {VERSION}.")
        if digest != _digest(tagged, blobs):
            raise ModelFileError(f"{path} is damaged: its content does not match its digest. Get a fresh copy.")
        arrays = {name: _read_array(blobs[f"{name}.npy"], *form) for name, form in ARRAYS.items()}
        header["schema"] = schema = Schema.from_dict(header["schema"])
        header["privacy"] = Statement.from_dict(header["privacy"])
        header["ledger"] = Ledger.from_dict(header["ledger"])
        header["parameters"]["epsilon"] = float(header["parameters"]["epsilon"])
        cuts = _split_cuts(arrays.pop("cuts"), arrays.pop("n_cuts"), schema)
        domain = Domain(tuple(schema.features), tuple(schema.features.values()), cuts)
        forest = Forest(domain=domain, target=schema.target, draws=bool(header["draws"]), link=header["link"], **arrays)
        _check_structure(forest)
        return header, forest
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or 'not a file of models'}.") from None
    except ModelFileError:
        raise
    except DAMAGE:
        raise ModelFileError(f"{path} is damaged or not a dpforest model.") from None


def _split_cuts(cuts: np.ndarray, n_cuts: np.ndarray, schema: Schema) -> tuple[np.ndarray, ...]:
    """The cuts of each feature: increasing, none for a categorical one."""
    numeric = [isinstance(part, Numeric) for part in schema.features.values()]
    if len(n_cuts) != len(numeric) or (n_cuts < 0).any() or (n_cuts > len(cuts)).any() or n_cuts.sum() != len(cuts):
        raise ModelFileError("The cuts of the model do not fit its features.")
    parts = tuple(np.split(cuts, np.cumsum(n_cuts)[:-1]))
    if any(len(part) and not is_numeric for part, is_numeric in zip(parts, numeric, strict=True)):
        raise ModelFileError("The cuts of the model do not fit its features.")
    if not np.isfinite(cuts).all() or any((part[1:] <= part[:-1]).any() for part in parts):
        raise ModelFileError("The cuts of the model are not in order.")
    return parts


def _check_structure(forest: Forest) -> None:
    """Raise unless every walk from a root ends at a leaf inside the arrays: kernels do not check."""
    n, domain, n_routes = forest.n_nodes, forest.domain, len(forest.routes)
    inner = np.flatnonzero(~forest.is_leaf)
    children, features, splits = forest.first_children[inner], forest.features[inner], forest.splits[inner]
    sound = (
        n > 0
        and all(len(getattr(forest, name)) == n for name in ARRAYS if name not in ("routes", "cuts", "n_cuts"))
        and all(getattr(forest, name).shape == (n, forest.target.n_values) for name in ("counts", "shares", "votes"))
        and all(np.isfinite(getattr(forest, name)).all() for name in ("counts", "variances", "shares", "votes"))
        and forest.link in LINKS
        and ((forest.votes >= 0).all() or forest.link != "shares")
        and forest.routes.shape[1] >= domain.n_codes.max()
        and forest.n_trees > 0
        and (forest.parents[: forest.n_trees] < 0).all()
        and ((forest.parents < np.arange(n)) & (forest.parents >= -1)).all()
        and ((forest.trees >= 0) & (forest.trees < forest.n_trees)).all()
        and ((children > inner) & (children < n)).all()
        and ((features >= 0) & (features < domain.n_features)).all()
        and ((splits >= 0) & (splits < n_routes)).all()
        and (children + forest.routes[splits].max(axis=1, initial=0) < n).all()
        and (np.diff(forest.levels, prepend=0) >= 0).all()
        and (forest.levels < n).all()
    )
    if not sound:
        raise ModelFileError("The arrays of the model do not fit together.")


def _parameters(model: Any) -> dict[str, Any]:
    parameters = {name: value for name, value in model.get_params(deep=False).items() if name != "schema"}
    if isinstance(parameters["recipe"], Recipe):
        parameters["recipe"] = parameters["recipe"].name
    # A seed may be a live generator; that the noise was seeded is in the statement.
    parameters["random_state"] = None
    if math.isinf(parameters["epsilon"]):
        parameters["epsilon"] = "inf"
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in parameters.items()}


def _array_bytes(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def _read_array(blob: bytes, dtype: str, n_dimensions: int) -> np.ndarray:
    """An array of the expected form; its announced size is checked before memory is asked for it."""
    stream = io.BytesIO(blob)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ModelFileError("An array of the model has another format.")
    shape, _, found = np.lib.format.read_array_header_1_0(stream)
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    if found != np.dtype(dtype) or len(shape) != n_dimensions or n_bytes != len(blob) - stream.tell():
        raise ModelFileError("An array of the model has the wrong type or size.")
    return np.lib.format.read_array(io.BytesIO(blob), allow_pickle=False)


def _digest(header: dict[str, Any], blobs: dict[str, bytes]) -> str:
    """A hash of all content, so that a model whose bytes were changed is refused."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True, allow_nan=False).encode())
    for name in sorted(blobs):
        digest.update(name.encode() + b"\0" + hashlib.sha256(blobs[name]).digest())
    return digest.hexdigest()


def _tag(value: Any) -> Any:
    """JSON has no tuples, but labels may be tuples; in a list they become an object, which a list of labels never holds."""
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
