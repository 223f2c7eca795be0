"""Files that are there complete or not at all. Public values only."""

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dpforest.errors import OutputError

# How files begin that were paid for: what is written elsewhere can be made again, they cannot.
MODEL = b"model.json"  # the first entry of an archive has its name here
PLACE_OF_NAME = 30
BUDGET = b"SQLite format 3\0"


def check_writable(path: str | Path, *inputs: str | Path, over_models: bool = False) -> Path:
    """Raise unless a file can be written there that is none of the ``inputs``; leaves nothing behind.

    A budget that is there is never written over, a model only with ``over_models``.
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
        # A name that is too long shows only when it is looked up.
        path.exists()
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".dpforest-"):
            pass
    except OSError as error:
        raise OutputError(f"Nothing can be written to {path}: {error.strerror}. Choose another place.") from None
    return path


def _kept_at(path: Path) -> str | None:
    """ "model" or "budget", if that is what the file at a path is."""
    if not path.exists():
        return None
    with open(path, "rb", opener=_open_at_once) as file:
        start = file.read(PLACE_OF_NAME + len(MODEL))
    if start.startswith(BUDGET):
        return "budget"
    return "model" if start.startswith(b"PK") and start.endswith(MODEL) else None


def read_whole(path: str | Path, most_bytes: int) -> bytes:
    """The bytes of an ordinary file; ``OSError`` if it cannot be read, ``OutputError`` if it is none or too large."""
    with open(path, "rb", opener=_open_at_once) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OutputError(f"{path} is no ordinary file.")
        if facts.st_size > most_bytes:
            raise OutputError(f"{path} is larger than {most_bytes} bytes.")
        # No more than was there when it was opened, if somebody is writing on.
        return file.read(facts.st_size)


def _open_at_once(path: str, flags: int) -> int:
    """A pipe would keep whoever opens it waiting."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write_whole(path: str | Path, content: bytes) -> None:
    """Write a file so that it is there complete or not at all."""
    with whole_file(path) as file:
        file.write(content)


@contextmanager
def free_place(path: str | Path) -> Iterator[Path]:
    """The path, or one with a number if something is there by now; an empty file keeps the place while the block runs."""
    path = Path(path)
    place, number = path, 1
    while True:
        try:
            os.close(os.open(place.resolve(), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            break
        except FileExistsError:
            number += 1
            place = path.with_stem(f"{path.stem}.{number}")
        except OSError as error:
            raise OutputError(f"{place} could not be written: {error.strerror}.") from None
    try:
        yield place
    except BaseException:
        place.resolve().unlink(missing_ok=True)
        raise


@contextmanager
def whole_file(path: str | Path, *, over_models: bool = False) -> Iterator[BinaryIO]:
    """A file to write to that is at its place once the block has ended well, and nowhere otherwise."""
    # Through a link: the file that it leads to is written, and the link stays.
    path = check_writable(path, over_models=over_models).resolve()
    name = path.parent / f".dpforest-{secrets.token_hex(8)}"
    try:
        # The rights that the system gives to a new file.
        handle = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            # Else a machine that loses its power may keep the name and not what it names.
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        name.unlink(missing_ok=True)
        raise OutputError(f"{path} could not be written: {error.strerror}.") from None
    except BaseException:
        name.unlink(missing_ok=True)
        raise
