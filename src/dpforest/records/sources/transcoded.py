"""Text of any known encoding as a stream in UTF-8. Sees rows."""

import codecs
import io
from typing import Any

from dpforest.errors import TableError


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
