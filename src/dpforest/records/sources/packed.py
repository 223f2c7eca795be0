"""Files that may be packed, by the endings of their names. Sees rows."""

import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpforest.errors import TableError

PACKED = (".gz", ".bz2", ".zst", ".lz4", ".zip")
# What a Mac adds to an archive beside the files that somebody chose.
NOT_CHOSEN = ("__MACOSX/",)
LOCKED = 1  # the flag of a file that needs a password


def ending(path: Path) -> str:
    """The ending of the name of a file, or of the file that is packed in it, in lower case."""
    if path.suffix.lower() == ".zip" and path.is_file():
        with _archive(path) as (archive, _):
            return Path(_only_one(archive, path)).suffix.lower()
    inner = path.with_suffix("") if path.suffix.lower() in PACKED else path
    return inner.suffix.lower()


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[Any, Any]]:
    """A stream of the content of a file, unpacked; and the file itself, which tells the progress."""
    if path.suffix.lower() == ".zip":
        with _archive(path) as (archive, file), archive.open(_only_one(archive, path)) as stream:
            yield stream, file
        return
    with pa.OSFile(str(path)) as file:
        packed = path.suffix.lower() in PACKED
        yield pa.CompressedInputStream(file, pa.Codec.detect(str(path).lower()).name) if packed else file, file


@contextmanager
def _archive(path: Path) -> Iterator[tuple[zipfile.ZipFile, Any]]:
    """An archive and its file; raises ``TableError`` if it is damaged, or locked by a password."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            if any(each.flag_bits & LOCKED for each in archive.infolist()):
                raise zipfile.BadZipFile
            yield archive, file
    except (zipfile.BadZipFile, EOFError, NotImplementedError, zlib.error, lzma.LZMAError):
        raise TableError(f"{path} cannot be unpacked: it is damaged, or needs a password. Unpack it first.") from None


def _only_one(archive: zipfile.ZipFile, path: Path) -> str:
    names = [each.filename for each in archive.infolist() if not each.is_dir() and not each.filename.startswith(NOT_CHOSEN)]
    if len(names) != 1:
        listed = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        raise TableError(f"{path} must hold one file, and holds {len(names)}: {listed or 'none'}. Unpack the one to read.")
    return names[0]
