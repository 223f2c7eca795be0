"""Model files: plain arrays and a JSON header in an uncompressed zip. Data, never code; public values only."""

import hashlib
import io
import json
import math
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from dpforest.domain import Domain
from dpforest.errors import DPForestError, ModelFileError
from dpforest.privacy.ledger import Ledger
from dpforest.privacy.statement import Statement
from dpforest.recipe import Recipe
from dpforest.schema import Schema
from dpforest.tree import Forest

FORMAT = "dpforest-model"
VERSION = 1
HEADER = "model.json"
MOST_BYTES = 1 << 31
# What reading a file that nobody wrote on purpose can raise.
DAMAGE = (
    zipfile.BadZipFile, DPForestError, ValueError, KeyError, TypeError, IndexError, AttributeError, NotImplementedError,
    RuntimeError, EOFError, OverflowError, RecursionError,
)  # fmt: skip
ARRAYS = {
    "trees": "i", "parents": "i", "levels": "i", "first_children": "i", "features": "i", "splits": "i", "routes": "u",
    "counts": "f", "variances": "f", "shares": "f", "votes": "f", "cuts": "f", "n_cuts": "i",
}  # fmt: skip


def check_writable(path: str | Path) -> Path:
    """Raise unless a file can be written there; leaves nothing behind."""
    path = Path(path)
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder; name a file in it.")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".dpforest-"):
            pass
    except OSError as error:
        raise ModelFileError(f"Nothing can be written to {path}: {error.strerror}. Choose another place.") from None
    return path


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file so that it is there complete or not at all."""
    path = check_writable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".dpforest-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def save_model(model: Any, path: str | Path) -> None:
    """Write a fitted estimator."""
    forest: Forest = model.forest_
    arrays = {name: getattr(forest, name) for name in ARRAYS if hasattr(forest, name)}
    arrays["cuts"] = np.concatenate([np.empty(0), *forest.domain.cuts])
    arrays["n_cuts"] = np.array([len(cuts) for cuts in forest.domain.cuts])
    blobs = {f"{name}.npy": _array_bytes(array) for name, array in arrays.items()}
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
        "digest": _digest(blobs),
    }
    try:
        text = json.dumps(_tag(header), indent=1, allow_nan=False)
    except TypeError:
        raise ModelFileError(
            "Only text, numbers, booleans and tuples of these can be labels or categories of a model that is saved."
        ) from None
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, blob in {HEADER: text.encode(), **blobs}.items():
            # A fixed date: the same model gives the same bytes.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), blob)
    write_whole(path, buffer.getvalue())


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
        header = _untag(json.loads(blobs.pop(HEADER)))
        if header["format"] != FORMAT or header["version"] != VERSION:
            raise ModelFileError(f"{path} is a model of format {header['version']!r}; this version reads {VERSION}.")
        if header["digest"] != _digest(blobs):
            raise ModelFileError(f"{path} is damaged: its content does not match its digest. Get a fresh copy.")
        arrays = {name: _read_array(blobs[f"{name}.npy"], kind) for name, kind in ARRAYS.items()}
        header["schema"] = schema = Schema.from_dict(header["schema"])
        header["privacy"] = Statement.from_dict(header["privacy"])
        header["ledger"] = Ledger.from_dict(header["ledger"])
        header["parameters"]["epsilon"] = float(header["parameters"]["epsilon"])
        cuts = tuple(np.split(arrays.pop("cuts"), np.cumsum(arrays.pop("n_cuts"))[:-1]))
        domain = Domain(tuple(schema.features), tuple(schema.features.values()), cuts)
        forest = Forest(domain=domain, target=schema.target, draws=bool(header["draws"]), **arrays)
        _check_structure(forest)
        return header, forest
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or 'not a file of models'}.") from None
    except ModelFileError:
        raise
    except DAMAGE:
        raise ModelFileError(f"{path} is damaged or not a dpforest model.") from None


def _check_structure(forest: Forest) -> None:
    """Raise unless every walk from a root ends at a leaf inside the arrays: kernels do not check."""
    n, domain = forest.n_nodes, forest.domain
    inner = np.flatnonzero(~forest.is_leaf)
    routes = forest.routes[forest.splits[inner]].astype(np.int64)
    last = forest.first_children[inner] + routes.max(axis=1, initial=0)
    sound = (
        n > 0
        and forest.n_trees > 0
        and (forest.parents[: forest.n_trees] < 0).all()
        and len(domain.cuts) == domain.n_features
        and all(len(getattr(forest, name)) == n for name in ARRAYS if name not in ("routes", "cuts", "n_cuts"))
        and all(getattr(forest, name).shape == (n, forest.target.n_values) for name in ("counts", "shares", "votes"))
        and forest.routes.ndim == 2
        and forest.routes.shape[1] >= domain.n_codes.max()
        and ((forest.first_children[inner] > inner) & (last < n)).all()
        and ((forest.features[inner] >= 0) & (forest.features[inner] < domain.n_features)).all()
        and ((forest.splits[inner] >= 0) & (forest.splits[inner] < len(forest.routes))).all()
        and (forest.levels[1:] >= forest.levels[:-1]).all()
        and (forest.levels >= 0).all()
        and ((forest.parents < np.arange(n)) & (forest.parents >= -1)).all()
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


def _read_array(blob: bytes, kind: str) -> np.ndarray:
    array = np.lib.format.read_array(io.BytesIO(blob), allow_pickle=False)
    if array.dtype.kind != kind or not array.dtype.isnative:
        raise ModelFileError("An array of the model has the wrong type.")
    return array


def _digest(blobs: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(blobs):
        digest.update(name.encode() + b"\0" + hashlib.sha256(blobs[name]).digest())
    return digest.hexdigest()


def _tag(value: Any) -> Any:
    """JSON has no tuples, but labels may be tuples."""
    if isinstance(value, tuple):
        return {"(tuple)": [_tag(item) for item in value]}
    if isinstance(value, list):
        return [_tag(item) for item in value]
    return {key: _tag(item) for key, item in value.items()} if isinstance(value, dict) else value


def _untag(value: Any) -> Any:
    if isinstance(value, list):
        return [_untag(item) for item in value]
    if isinstance(value, dict):
        if set(value) == {"(tuple)"}:
            return tuple(_untag(item) for item in value["(tuple)"])
        return {key: _untag(item) for key, item in value.items()}
    return value
