"""Files that may be packed, by the endings of their names. Sees rows."""

import codecs
import io
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


def in_utf_8(stream: Any, encoding: str) -> Any:
    """A stream of the same text in UTF-8; the stream itself if that is its encoding."""
    return stream if encoding == "utf-8" else _Transcoded(stream, encoding)


class _Transcoded(io.RawIOBase):
    """A stream in UTF-8 of the text of another one.

    Bytes that stand for no character, and halves of characters, become bytes that are not valid UTF-8 either, so that they
    concern the cell that they stand in, as in a file that is in UTF-8.
    """

    def __init__(self, stream: Any, encoding: str) -> None:
        errors = "surrogatepass" if encoding.startswith("utf") else "surrogateescape"
        self._stream, self._decoder = stream, codecs.getincrementaldecoder(encoding)(errors)
        self._text = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def read(self, n_bytes: int = -1) -> bytes:
        if n_bytes < 0:
            return b"".join(iter(lambda: self.read(1 << 20), b""))
        while len(self._text) < n_bytes and (block := self._stream.read(n_bytes)):
            self._text += self._decoded(block).encode("utf-8", "surrogatepass")
        given, self._text = self._text[:n_bytes], self._text[n_bytes:]
        return given

    def _decoded(self, block: bytes) -> str:
        try:
            return self._decoder.decode(block)
        except UnicodeError:  # at the beginning of a file alone
            raise TableError(
                "The file does not begin with the mark of UTF-16, which says the order of its bytes. Pass --encoding "
                "utf-16-le, as most programs write it, or utf-16-be."
            ) from None
