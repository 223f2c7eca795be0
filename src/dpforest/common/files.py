"""Reading and writing of whole files: a file is there complete or not at all. Public values only."""

import json
import os
import secrets
import stat
import struct
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZipFile, ZipInfo

from dpforest.errors import DPForestError, OutputError

# Signs of files that nothing makes again, a model (an archive whose first entry has this name, at this offset) or a budget.
# Other files that are written can be made again.
MODEL = b"model.json"
OFFSET_OF_NAME = 30
BUDGET = b"SQLite format 3\0"
# Of an entry of a zip archive.
LOCAL = struct.Struct("<4s5H3I2H")
ENCRYPTED_OR_SIZE_ELSEWHERE = 1 | 8
UNIX = 3


def check_writable(path: str | Path, *inputs: str | Path, over_models: bool = False) -> Path:
    """The path, if a file can be written there; else raises ``OutputError``. Nothing is left there.

    The path must be none of the ``inputs``. A budget is never written over, a model only with ``over_models``.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise OutputError(f"{path} is a folder; name a file in it.")
        if path.exists() and not path.is_file():
            raise OutputError(f"{path} is no ordinary file; name one, or a new one.")
        if any(path.exists() and Path(other).exists() and path.samefile(other) for other in inputs):
            raise OutputError(f"{path} is the file that is read; write to another file.")
        kept = _kept_at(path)
        if kept == "budget" or (kept == "model" and not over_models):
            raise OutputError(f"{path} is a {kept}, which nothing else makes again. Move it away, or choose another file.")
        # A name that is too long, or none, raises only when it is looked up.
        path.exists()
        path.resolve()
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".dpforest-"):
            pass
    except OSError as error:
        raise OutputError(f"Nothing can be written to {path}: {error.strerror}. Choose another place.") from None
    except ValueError as error:  # half a character, or one of no name
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"{str(path)!r} is no name that a file can have. Choose another place.") from None
    return path


def _kept_at(path: Path) -> str | None:
    """The text "model" or "budget" if the file at a path is one; else None."""
    if not path.exists():
        return None
    with open(path, "rb", opener=_open_at_once) as file:
        start = file.read(OFFSET_OF_NAME + len(MODEL))
    if start.startswith(BUDGET):
        return "budget"
    return "model" if start.startswith(b"PK") and start.endswith(MODEL) else None


def read_whole(path: str | Path, most_bytes: int) -> bytes:
    """The bytes of an ordinary file of at most ``most_bytes``; raises ``OutputError`` for any other, or ``OSError``."""
    # As a path: a number would name a file that the process has open already.
    with open(Path(path), "rb", opener=_open_at_once) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OutputError(f"{path} is no ordinary file.")
        if facts.st_size > most_bytes:
            raise OutputError(f"{path} is larger than {most_bytes} bytes.")
        # No more bytes than were there when it was opened: somebody may be writing to it.
        return file.read(facts.st_size)


def _open_at_once(path: str, flags: int) -> int:
    """A file descriptor, opened without waiting: to open a pipe could otherwise take for ever."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_entries(path: str | Path, what: str, most_bytes: int, error: type[DPForestError]) -> Any:
    """The entries of a ``.json`` or ``.toml`` file, unchecked; ``error`` is raised if the ``what`` file cannot be read."""
    path = Path(path)
    parsers: dict[str, Any] = {".json": partial(json.loads, object_pairs_hook=_without_repeats), ".toml": tomllib.loads}
    if path.suffix not in parsers:
        raise error(f"A {what} file ends in .json or .toml, not {path.suffix!r} ({path}).")
    try:
        # Every line end as a single line feed.
        text = read_whole(path, most_bytes).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
        return parsers[path.suffix](text)
    except OSError as found:
        raise error(f"The {what} file {path} cannot be read: {found.strerror}.") from None
    except OutputError as found:
        raise error(f"The {what} file cannot be read: {found}") from None
    except (ValueError, RecursionError) as found:
        hint = ' Text stands in quotes, as in labels = ["no", "yes"].' if path.suffix == ".toml" else ""
        raise error(f"The {what} file {path} is not valid {path.suffix[1:].upper()}: {found}.{hint}") from None


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the entry {repeated!r} is there twice")
    return content


def write_whole(path: str | Path, content: bytes) -> None:
    """Write the content to a file, so that it is there complete or not at all."""
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def free_place(path: str | Path) -> Iterator[Path]:
    """A path at which nothing was: the given one, or else one with a number added.

    An empty file reserves it while the block runs, and is removed if the block fails.
    """
    path = Path(path)
    free, number = path, 1
    while True:
        try:
            os.close(os.open(free.resolve(), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            break
        except FileExistsError:
            number += 1
            free = path.with_stem(f"{path.stem}.{number}")
        except OSError as error:
            raise OutputError(f"{free} could not be written: {error.strerror}.") from None
    try:
        yield free
    except BaseException:
        free.resolve().unlink(missing_ok=True)
        raise


@contextmanager
def whole_file(path: str | Path, *, over_models: bool = False) -> Iterator[BinaryIO]:
    """A file object to write to; the file is at ``path`` once the block has ended without an error."""
    # Through a link: the file that it leads to is written, and the link stays.
    path = check_writable(path, over_models=over_models).resolve()
    name = path.parent / f".dpforest-{secrets.token_hex(8)}"
    try:
        # The rights that the system gives to a new file.
        handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            # Else a machine that loses its power may keep the name of the file and not its content.
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        raise OutputError(f"{path} could not be written: {error.strerror}.") from None
    finally:
        name.unlink(missing_ok=True)  # it is there unless all went well


def packed(entries: Mapping[str, bytes | memoryview]) -> bytes:
    """An archive of these entries; all are of the first day of zip, so that the same entries give the same bytes."""
    stream = BytesIO()
    with ZipFile(stream, "w") as archive:
        for name, blob in entries.items():
            entry = ZipInfo(name)
            entry.create_system = UNIX  # wherever this runs
            archive.writestr(entry, blob)
    return stream.getvalue()


def unpacked(content: bytes, names: Collection[str]) -> dict[str, memoryview]:
    """The bytes of each named entry of an archive; raises ``ValueError`` unless its entries are those, once each.

    No directory, path or size in the file is trusted: entries are found one after the other, and all is compared later.
    """
    view, offset = memoryview(content), 0
    entries: dict[str, memoryview] = {}
    while len(entries) < len(names):
        if len(content) - offset < LOCAL.size:
            raise ValueError("An entry of the archive is missing.")
        mark, _, flags, method, _, _, _, size, whole_size, n_name, n_extra = LOCAL.unpack_from(content, offset)
        start = offset + LOCAL.size + n_name + n_extra
        name = str(view[offset + LOCAL.size :][:n_name], "ascii", "replace")
        if mark != b"PK\3\4" or name not in names or name in entries:
            raise ValueError("An entry of the archive is not one of its kind.")
        if method or flags & ENCRYPTED_OR_SIZE_ELSEWHERE or size != whole_size or start + size > len(content):
            raise ValueError("An entry of the archive is packed, or larger than the archive.")
        entries[name] = view[start : start + size]
        offset = start + size
    return entries
