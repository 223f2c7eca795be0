"""Files that are there complete or not at all. Public values only."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from dpforest.errors import OutputError


def check_writable(path: str | Path, *inputs: str | Path) -> Path:
    """Raise unless a file can be written there that is none of the ``inputs``; leaves nothing behind."""
    path = Path(path)
    try:
        if path.is_dir():
            raise OutputError(f"{path} is a folder; name a file in it.")
        if path.exists() and not path.is_file():
            raise OutputError(f"{path} is no ordinary file; name one, or a new one.")
        if any(path.exists() and Path(other).exists() and path.samefile(other) for other in inputs):
            raise OutputError(f"{path} is what is read; write to another file.")
        # A name that is too long shows only when it is looked up.
        path.exists()
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".dpforest-"):
            pass
    except OSError as error:
        raise OutputError(f"Nothing can be written to {path}: {error.strerror}. Choose another place.") from None
    return path


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
def whole_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write to that is at its place once the block has ended well, and nowhere otherwise."""
    # Through a link: the file that it leads to is written, and the link stays.
    path = check_writable(path).resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".dpforest-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            # Else a machine that loses its power may keep the name and not what it names.
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except OSError as error:
        Path(name).unlink(missing_ok=True)
        raise OutputError(f"{path} could not be written: {error.strerror}.") from None
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
