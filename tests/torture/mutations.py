"""Files that nobody wrote on purpose: damaged, cut, spliced, forged and hostile ones, each made by a seed."""

import copy
import hashlib
import io
import json
import pickle
import random
import sqlite3
import struct
import zipfile
from contextlib import suppress

import numpy as np

from dpforest.common.files import packed
from dpforest.model.file import _digest

NUMBERS = [0, -1, 1, 2**31, -(2**31), 2**63 - 1, -(2**63), 2**64, 10**30, 10**400, 0.5, -0.0, 1e-320, 1e308, -1e308]
ODD = [
    "", "inf", "nan", "\x00", "../../etc/passwd", "\ud800", "x" * 10_000, None, True, False, [], {}, [[]], float("nan"),
    float("inf"), {"(tuple)": []}, {"kind": "numeric"}, "'; DROP TABLE entries; --", "__import__('os').system('id')",
]  # fmt: skip
EDGES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF]


def nested(levels, brackets="[]"):
    return brackets[0] * levels + brackets[1] * levels


def damage(content, draw, others):
    """Bytes with a few changes that know nothing of what they mean."""
    content = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 5, 50])):
        place = draw.randrange(len(content) + 1)
        stop = min(len(content), place + draw.choice([1, 4, 16, 300, 5000]))
        kind = draw.choice(["bit", "cut", "remove", "repeat", "insert", "splice", "number", "zeros"])
        if kind == "bit" and place < len(content):
            content[place] ^= 1 << draw.randrange(8)
        elif kind == "cut":
            del content[place:]
        elif kind == "remove":
            del content[place:stop]
        elif kind == "repeat":
            content[place:place] = content[place:stop]
        elif kind == "insert":
            content[place:place] = draw.randbytes(draw.choice([1, 8, 100]))
        elif kind == "splice":
            other = draw.choice(others)
            begin = draw.randrange(len(other) + 1)
            content[place:stop] = other[begin : begin + stop - place]
        elif kind == "number":
            content[place : place + 4] = struct.pack(draw.choice("<>") + "I", draw.choice(EDGES))
        elif kind == "zeros":
            content[place:stop] = bytes(stop - place)
    return bytes(content)


def places(value, path=()):
    """The path of every part of a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def inside(value, path):
    for key in path:
        value = value[key]
    return value


def put(value, path, new):
    """Have another part at a path of a JSON value."""
    inside(value, path[:-1])[path[-1]] = new


def bend(value, draw):
    """A JSON value with some parts replaced, removed, doubled or renamed."""
    value = copy.deepcopy(value)
    for _ in range(draw.choice([1, 1, 1, 2, 6])):
        path = draw.choice([*places(value)][1:] or [()])
        if not path:
            return draw.choice(ODD)
        part, last = inside(value, path[:-1]), path[-1]
        kind = draw.choice(["number", "odd", "odd", "remove", "rename", "double", "nudge"])
        if kind == "number":
            part[last] = draw.choice(NUMBERS)
        elif kind == "odd":
            part[last] = copy.deepcopy(draw.choice(ODD))
        elif kind == "remove":
            del part[last]
        elif kind == "rename" and isinstance(part, dict):
            part[draw.choice(["", "digest", "(tuple)", "kind", "a" * 1000, "__class__"])] = part.pop(last)
        elif kind == "double" and isinstance(part, list):
            part.extend(copy.deepcopy(part[:1000]))
        elif kind == "nudge" and isinstance(part[last], int | float) and not isinstance(part[last], bool):
            part[last] *= draw.choice([-1, 2, 10**9])
    return value


def text_of(value, draw):
    text = json.dumps(value, indent=1)
    if draw.random() < 0.1:
        place = draw.randrange(len(text))
        text = text[:place] + nested(draw.choice([10, 900, 100_000])) + text[place:]
    return text.encode("utf-8", "surrogatepass")


def bend_array(blob, draw):
    """An array with other numbers, another shape or another type; sometimes one that would run code."""
    try:
        array = np.load(io.BytesIO(blob)).copy()
    except Exception:  # it was bent before
        return blob
    kind = draw.choice(["numbers", "numbers", "numbers", "shape", "type", "head", "pickle"])
    if kind == "numbers" and array.size:
        for _ in range(draw.choice([1, 1, 3, 20])):
            place = draw.randrange(array.size)
            values = [-2, -1, 0, 1, 2, 3, 7, array.size, array.size - 1]
            values += [np.nan, np.inf, 1e308, -1e308, 1e-320] if array.dtype.kind == "f" else [2**16 - 1, 2**31, 2**62]
            array.flat[place] = np.array(draw.choice(values)).astype(array.dtype, casting="unsafe")
    elif kind == "shape":
        array = draw.choice([array[:0], array[:-1], array.reshape(-1), array[None], np.concatenate([array, array])])
    elif kind == "type":
        array = array.astype(draw.choice(["<f4", ">f8", "<i8", "<u2", "<f8", "S8", "<c16", "M8[s]"]))
    elif kind == "pickle":
        array = np.array([Trap()], dtype=object)
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    blob = buffer.getvalue()
    if kind == "head":
        shape = draw.choice([b"(999999999999,)", b"(-1,)", b"(1, 99999999999)", b"__import__('os').abort()", b"(" * 500])
        head = b"{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + b", }\n"
        blob = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + blob[128:]
    return blob


class Trap:
    """What runs code if it is unpickled."""

    def __reduce__(self):
        return (pickle.loads, (b"cos\nabort\n(tR.",))


def entries_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def forge_model(content, draw, others):
    """A model with changed content and the digest that goes with it, as one writes it who knows the format."""
    entries = entries_of(content)
    facts = json.loads(entries.pop("model.json"))
    facts.pop("digest")
    if draw.random() < 0.6:
        facts = bend(facts, draw)
    for _ in range(draw.choice([0, 1, 1, 3])):
        name = draw.choice([*entries])
        entries[name] = bend_array(entries[name], draw)
    if draw.random() < 0.1:
        other = entries_of(draw.choice(others))
        name = draw.choice([*entries])
        entries[name] = other[name]
    if isinstance(facts, dict):
        try:
            facts["digest"] = _digest(facts, entries)
        except ValueError:
            facts["digest"] = "0" * 64
    return packed({"model.json": text_of(facts, draw), **entries})


def trick_zip(content, draw, others):
    """Archives that say one thing and hold another."""
    entries, buffer = entries_of(content), io.BytesIO()
    kind = draw.choice(["bomb", "twice", "escape", "order", "overlap", "sizes", "behind", "link"])
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED if kind == "bomb" else zipfile.ZIP_STORED) as archive:
        names = draw.sample([*entries], len(entries)) if kind == "order" else [*entries]
        for name in names:
            blob = bytes(draw.choice([1 << 20, 1 << 24])) if kind == "bomb" and draw.random() < 0.3 else entries[name]
            facts = zipfile.ZipInfo(name)
            facts.compress_type = archive.compression
            facts.external_attr = (0o120777 << 16) if kind == "link" else 0
            archive.writestr(facts, blob)
        if kind == "escape":
            archive.writestr(draw.choice(["../../escaped", "/tmp/escaped", "C:\\escaped", "model.json/../x"]), b"x")
    packed_bytes = bytearray(buffer.getvalue())
    if kind == "twice":
        packed_bytes += bytes(packed_bytes)
    elif kind == "behind":
        packed_bytes += draw.randbytes(draw.choice([1, 22, 1000]))
    elif kind in ("overlap", "sizes"):
        mark, offset = (b"PK\x01\x02", 42) if kind == "overlap" else (b"PK\x03\x04", 18)
        place = -1
        for _ in range(draw.randrange(1, 14)):
            place = packed_bytes.find(mark, place + 1)
        if place >= 0:
            wrong = draw.choice([0, 1, 100, len(packed_bytes), *EDGES])
            packed_bytes[place + offset : place + offset + 4] = struct.pack("<I", wrong)
            if kind == "sizes":
                packed_bytes[place + 22 : place + 26] = struct.pack("<I", wrong)
    return bytes(packed_bytes)


def mutated_model(contents, seed):
    draw = random.Random(seed)
    return draw.choice([damage, forge_model, forge_model, forge_model, trick_zip])(draw.choice(contents), draw, contents)


TOML_TRICKS = [
    lambda draw: "x = " + nested(draw.choice([10, 900, 50_000])),
    lambda draw: "x = " + "{a=" * draw.choice([10, 900, 20_000]),
    lambda draw: "a." * draw.choice([10, 900, 2_000]) + "b = 1",
    lambda draw: "[" + "a." * draw.choice([10, 900, 2_000]) + "b]",
    lambda draw: "x = 0x" + "f" * draw.choice([10, 5_000, 100_000]),
    lambda draw: "x = " + "9" * draw.choice([10, 5_000, 100_000]),
    lambda draw: "x = 1e" + "9" * draw.choice([3, 5_000]),
    lambda draw: "[target]\n" * 2,
    lambda draw: "x = 9999-12-31T23:59:60Z",
    lambda draw: 'x = """' + "\\" * 5_000,
    lambda draw: "[[features]]\n" * draw.choice([1, 1_000]),
]


def mutated_schema(contents, seed):
    """The bytes of a mutated schema and the ending of its name."""
    draw = random.Random(seed)
    name, content = draw.choice([*contents.items()])
    others = [*contents.values()]
    kind = draw.choice(["damage", "bend", "bend", "trick"])
    if kind == "damage":
        return damage(content, draw, others), name.rpartition(".")[2]
    if kind == "trick" and name.endswith(".toml"):
        lines = content.decode().split("\n")
        lines.insert(draw.randrange(len(lines)), draw.choice(TOML_TRICKS)(draw))
        return "\n".join(lines).encode(), "toml"
    value = json.loads(draw.choice([text for name, text in contents.items() if name.endswith(".json")]))
    return text_of(bend(value, draw), draw), "json"


BUDGET_SQL = [
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE TABLE x(y)'",
    "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 99",
    "PRAGMA writable_schema = ON; DELETE FROM sqlite_master WHERE type = 'trigger'",
    "CREATE TABLE more (x)",
    "CREATE VIEW v AS SELECT load_extension('/tmp/x.so')",
    "PRAGMA user_version = 99",
    "PRAGMA application_id = 7",
    "PRAGMA journal_mode = WAL",
    "PRAGMA journal_mode = MEMORY",
    "PRAGMA auto_vacuum = FULL; VACUUM",
    "PRAGMA encoding = 'UTF-16'",
    "VACUUM",
]


def forge_budget(content, draw, path):
    """A store that was opened by someone else: rows changed, removed, added, doubled; triggers dropped or added."""
    path.write_bytes(content)
    with sqlite3.connect(path, isolation_level=None) as store:
        names = dict(store.execute("SELECT name, type FROM sqlite_master").fetchall())
        tables = [name for name, kind in names.items() if kind == "table" and not name.startswith("sqlite_")]
        if draw.random() < 0.8:
            for name in [name for name, kind in names.items() if kind == "trigger"]:
                text = store.execute("SELECT sql FROM sqlite_master WHERE name = ?", [name]).fetchone()[0]
                store.execute(f'DROP TRIGGER "{name}"')
                names[name] = text
            if draw.random() < 0.6:
                rechain(store, draw)
        for _ in range(draw.choice([0, 0, 1, 3])):
            bend_rows(store, draw.choice(tables), draw)
        if draw.random() < 0.7:
            for text in names.values():
                if text.startswith("CREATE TRIGGER"):
                    store.execute(text)
        table = draw.choice(tables)
        trigger = f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN SELECT load_extension('/tmp/x.so'); END"
        if draw.random() < 0.3:
            with suppress(sqlite3.Error):
                store.executescript(draw.choice([trigger, *BUDGET_SQL]))
    store.close()
    return path.read_bytes()


def rechain(store, draw):
    """Entries with changed content, and the hashes that go with them."""
    rows = store.execute("SELECT number, text FROM entries ORDER BY number").fetchall()
    chosen, previous = draw.randrange(len(rows)), "0" * 64
    for place, (number, text) in enumerate(rows):
        entry = json.loads(text)
        entry["previous"] = previous
        if place == chosen:
            entry = bend(entry, draw)
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(text.encode()).hexdigest()
        store.execute("UPDATE entries SET text = ?, hash = ? WHERE number = ?", [text, previous, number])


def bend_rows(store, table, draw):
    columns = [row[1] for row in store.execute(f'PRAGMA table_info("{table}")')]
    count = store.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]
    column, place = draw.choice(columns), draw.randrange(max(1, count))
    texts = [odd for odd in ODD if isinstance(odd, str | None) and odd != "\ud800"]
    numbers = [number for number in NUMBERS if abs(number) < 2**63]
    value = draw.choice([*numbers, *texts, b"\x00\xff", "{}", "[" * 5000, '{"epsilon": -1}', '{"epsilon": NaN}'])
    digits = [draw.choice("0123456789ae"), draw.choice("0129-")]
    where = f'WHERE rowid IN (SELECT rowid FROM "{table}" LIMIT 1 OFFSET {place})'
    sql = draw.choice([
        (f'UPDATE "{table}" SET "{column}" = ? {where}', [value]),
        (f'UPDATE "{table}" SET "{column}" = ? {where}', [value]),
        (f'UPDATE "{table}" SET "{column}" = replace("{column}", ?, ?) {where}', digits),
        (f'DELETE FROM "{table}" {where}', []),
        (f'INSERT INTO "{table}" SELECT * FROM "{table}" {where}', []),
    ])  # fmt: skip
    with suppress(sqlite3.Error):
        store.execute(*sql)


def mutated_budget(contents, seed, path):
    """A mutated store and the log beside it, if there is one."""
    draw = random.Random(seed)
    content, log = draw.choice(contents)
    kind = draw.choice(["damage", "log", "forge", "forge"])
    if kind == "log" and log:
        return content, damage(log, draw, [log, content])
    if kind == "forge" and not log:
        return forge_budget(content, draw, path), b""
    return damage(content, draw, [content, log or content]), log
