"""Archives in the zip format, without compression: every byte follows from the entries. Public values only.

Any zip tool opens one. A reader trusts no directory, path or size in the file: it finds entries one after the other, by
names that it knows before, and gives views of the bytes that were read.
"""

import struct
import zlib
from collections.abc import Collection, Iterator, Mapping

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
# 1 January 1980, the first day of zip: the same entries give the same bytes.
DATE = 1 << 5 | 1
VERSION = 20
UNIX = 3 << 8
OWNER_READS_AND_WRITES = 0o600 << 16
ENCRYPTED_OR_SIZE_ELSEWHERE = 1 | 8


def packed(entries: Mapping[str, bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """The bytes of an archive of these entries, in pieces that follow one another."""
    directory, offset = b"", 0
    for name, blob in entries.items():
        facts = (VERSION, 0, 0, 0, DATE, zlib.crc32(blob), len(blob), len(blob), len(name), 0)
        head = LOCAL.pack(b"PK\3\4", *facts) + name.encode("ascii")
        yield head
        yield blob
        rest = (0, 0, 0, OWNER_READS_AND_WRITES, offset)
        directory += CENTRAL.pack(b"PK\1\2", VERSION | UNIX, *facts, *rest) + name.encode("ascii")
        offset += len(head) + len(blob)
    yield directory
    yield END.pack(b"PK\5\6", 0, 0, len(entries), len(entries), len(directory), offset, 0)


def unpacked(content: bytes, names: Collection[str]) -> dict[str, memoryview]:
    """The bytes of each named entry of an archive; raises ``ValueError`` unless its entries are those, once each."""
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


def is_packed(content: bytes, entries: Mapping[str, bytes | memoryview]) -> bool:
    """Whether ``content`` is, to the last byte, what ``packed`` gives for these entries."""
    offset = 0
    for piece in packed(entries):
        if not content.startswith(piece, offset):
            return False
        offset += len(piece)
    return offset == len(content)
