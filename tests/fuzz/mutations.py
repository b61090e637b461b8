"""Damaged copies of valid files: by bytes, lines and values, and inside of what wraps them."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
from copy import deepcopy
from typing import Any

import numpy as np

Random = np.random.Generator

# What means something to a parser leads it astray more often than any byte does.
WORDS = [
    *(b"", b"\0", b"\n", b"\r", b"\r\n", b'"', b"'", b",", b";", b"\t", b" ", b"-", b".", b"#"),
    *(b"%", b"=", b"|", b"<", b"&a;", b"{", b"[", b"]", b"}", b"(", b"N", b"PK\x03\x04"),
    *(b"\xef\xbb\xbf", b"\xff\xfe", b"\x80\x04", b"\xff", b"\xc3\x28", b"\x1f\x8b", b"\x93NUMPY"),
    *(b"id", b"label", b"split", b"source", b"graph", b"__class__", b"../../x", b"/dev/zero"),
    *(b"true", b"null", b"None", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", "\u202eé\u0660".encode()),
]
NUMBERS = [
    *(b"0", b"-1", b"1", b"2", b"1000000000", b"99999999999999", b"1099511627776", b"0.5", b"-0"),
    *(b"2147483648", b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809"),
    *(b"1e308", b"1e309", b"-1e999", b"1e-320", b"nan", b"NaN", b"inf", b"-Infinity", b"1_000"),
    *(b"0x10", b"1e5", b"007", b"1,5", b"9" * 400, "\u0663".encode()),
]
VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 3, 0.5, -0.0, 1e300, float("nan"), float("inf"), 10**9),
    *(2**31, 2**40, 2**63, 10**30, "", "a", "lp", "none", "mean", "\0", "é" * 40, [], {}, [0]),
    *([[]], [1, 2, 3], {"a": 1}, [None], "1", "1e9", "/dev/zero", [10**9] * 3, [[0] * 20] * 20),
]
SHAPES = [
    *("()", "(0,)", "(1,)", "(3,)", "(-1,)", "(2, -1)", "(1000000000,)", "(1099511627776,)"),
    *("(0, 1000000000)", "(1000000000, 0)", "(4, 1000000000)", "(9223372036854775807, 2)"),
    *("(2.0,)", "2", "None", "(True,)", "(1,) * 9", "(" + "1, " * 40 + ")", "(" * 90 + ")" * 90),
]
TYPES = [
    *("<f4", ">f8", "<i8", "<u8", "|b1", "|O", "|V8", "<U1", "<U1000000000", "|S0", "<m8[s]"),
    *("<c16", "<f2", "<M8[D]", "f4,i4", "no", "<U0", "|i1", ">i4", "<i4"),
]


def choice(rng: Random, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def mutate(content: bytes, name: str, rng: Random) -> bytes:
    """A damaged copy of a file; its name says how it is wrapped."""
    wrapped = rng.random() < 0.7
    if wrapped and content[:2] == b"\x1f\x8b":
        return _gzipped(content, rng)
    if wrapped and content[:4] == b"PK\x03\x04":
        return _zipped(content, rng)
    if wrapped and content[:6] == b"\x93NUMPY" and rng.random() < 0.5:
        return header(content, rng)
    if wrapped and name.endswith((".json", ".jsonl")) and rng.random() < 0.7:
        return facts(content, rng)
    for _ in range(choice(rng, (1, 1, 1, 2, 5))):
        content = choice(rng, KINDS)(content, rng)
    return content


def _place(content: bytes, rng: Random) -> int:
    return int(rng.integers(len(content) + 1))


def _piece(content: bytes, rng: Random) -> tuple[int, int]:
    start = _place(content, rng)
    return start, min(len(content), start + choice(rng, (0, 1, 4, 8, 40)))


def flip(content: bytes, rng: Random) -> bytes:
    data = bytearray(content)
    if data:
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return bytes(data)


def noise(content: bytes, rng: Random) -> bytes:
    start, end = _piece(content, rng)
    return content[:start] + rng.bytes(end - start) + content[end:]


def cut(content: bytes, rng: Random) -> bytes:
    start, end = _piece(content, rng)
    return content[:start] + content[end:]


def truncate(content: bytes, rng: Random) -> bytes:
    return content[: _place(content, rng)]


def repeat(content: bytes, rng: Random) -> bytes:
    start, end = _piece(content, rng)
    return content[:end] + content[start:end] * choice(rng, (1, 2, 50)) + content[end:]


def word(content: bytes, rng: Random) -> bytes:
    start, end = _piece(content, rng)
    end = choice(rng, (start, end))
    return content[:start] + choice(rng, WORDS) * choice(rng, (1, 1, 1, 3)) + content[end:]


def number(content: bytes, rng: Random) -> bytes:
    """Another number in the place of one."""
    found = list(re.finditer(rb"[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?", content[:20_000]))
    if not found:
        return word(content, rng)
    old = choice(rng, found)
    return content[: old.start()] + choice(rng, NUMBERS) + content[old.end() :]


def lines(content: bytes, rng: Random) -> bytes:
    """Lines that are swapped, doubled, left out, or joined."""
    parts = content.split(b"\n")
    first, second = int(rng.integers(len(parts))), int(rng.integers(len(parts)))
    match int(rng.integers(4)):
        case 0:
            parts[first], parts[second] = parts[second], parts[first]
        case 1:
            parts[first:first] = [parts[second]] * choice(rng, (1, 3, 200))
        case 2:
            del parts[first]
        case _:
            parts[first : first + 2] = [b"".join(parts[first : first + 2])]
    return b"\n".join(parts)


def encoding(content: bytes, rng: Random) -> bytes:
    """The same text in another encoding, or with other ends of lines."""
    text = content.decode("latin-1")
    match int(rng.integers(6)):
        case 0:
            return text.encode("utf-16")
        case 1:
            return text.encode("utf-8-sig")
        case 2:
            return text.encode("utf-32-be")
        case 3:
            return content.replace(b"\n", choice(rng, (b"\r\n", b"\r", b"\0", b"\x85")))
        case 4:
            return content.replace(b"a", "ä".encode(choice(rng, ("latin-1", "utf-8"))))
        case _:
            return content.replace(b",", choice(rng, (b";", b"\t", b" ", b"|")))


def deep(content: bytes, rng: Random) -> bytes:
    """Something nested, or long, in a place."""
    start = _place(content, rng)
    piece = choice(rng, (b"[", b'{"a":', b"(", b"<a>", b"<node>", b'"', b"9", b"a", b"a.", b"a,"))
    return content[:start] + piece * choice(rng, (60, 2000, 30_000)) + content[start:]


def empty(content: bytes, rng: Random) -> bytes:
    return choice(rng, (b"", b"\n", b"\0" * 64, b"{}", b"[]", b"null", b"\xef\xbb\xbf"))


KINDS = (
    *(flip, flip, noise, cut, truncate, repeat, word, word, number, number, number, lines, lines),
    *(encoding, deep, empty),
)


def facts(content: bytes, rng: Random) -> bytes:
    """JSON, or a line of it, in which some values are others, or are gone."""
    parts = content.split(b"\n") if content[:1] == b"{" and b"}\n{" in content else [content]
    at = int(rng.integers(len(parts)))
    try:
        root = json.loads(parts[at])
    except ValueError:
        return number(content, rng)
    for _ in range(choice(rng, (1, 1, 2, 4))):
        root = _changed(root, rng)
    parts[at] = json.dumps(root).encode()
    return b"\n".join(parts)


def _changed(value: Any, rng: Random) -> Any:
    inside = value if isinstance(value, dict | list) else ()
    if not inside or rng.random() < 0.1:
        return deepcopy(choice(rng, VALUES))  # what is put in may be changed later
    key = choice(rng, list(inside) if isinstance(inside, dict) else range(len(inside)))
    if rng.random() < 0.15:
        if isinstance(inside, dict):
            return {("a" if k == key else k): v for k, v in inside.items() if rng.random() < 0.8}
        return [*inside[:key], *inside[key:] * choice(rng, (0, 2, 30))]
    inside[key] = _changed(inside[key], rng)
    return inside


def header(content: bytes, rng: Random) -> bytes:
    """An array whose header tells of another shape or type."""
    length = int.from_bytes(content[8:10], "little")
    text = content[10 : 10 + length].decode("latin-1").strip()
    match int(rng.integers(5)):
        case 0 | 1:
            text = re.sub(r"\([^)]*\)", lambda _: choice(rng, SHAPES), text, count=1)
        case 2:
            text = re.sub(r"(?<='descr': )'[^']*'", lambda _: repr(choice(rng, TYPES)), text)
        case 3:
            text = text.replace("False", "True")
        case _:
            text = mutate(text.encode(), "", rng).decode("latin-1")
    line = text.encode("latin-1") + b"\n"
    version = choice(rng, (b"\1\0", b"\1\0", b"\1\0", b"\2\0", b"\3\0", b"\0\0"))
    size = len(line).to_bytes(2, "little") if len(line) < 1 << 16 else b"\xff\xff"
    return b"\x93NUMPY" + version + size + line + content[10 + length :]


def _gzipped(content: bytes, rng: Random) -> bytes:
    try:
        inner = gzip.decompress(content)
    except (OSError, EOFError):
        return flip(content, rng)
    match int(rng.integers(6)):
        case 0:  # too large, and says so
            return gzip.compress(inner + bytes(9 << 20), 1)
        case 1:  # too large, and claims to be small
            return gzip.compress(inner + b"a" * (9 << 20), 1) + gzip.compress(b"\n")
        case 2:
            return content[:-4] + choice(rng, (b"\0" * 4, b"\xff" * 4))
        case _:
            return gzip.compress(mutate(inner, "", rng), 1)


def _zipped(content: bytes, rng: Random) -> bytes:
    """What is inside is changed and closed properly, so that no checksum protects it."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
    except (ValueError, OSError, zipfile.BadZipFile):
        return flip(content, rng)
    at = int(rng.integers(len(members)))
    name, inner = members[at]
    packing = zipfile.ZIP_STORED
    match int(rng.integers(12)):
        case 0:
            packing = zipfile.ZIP_DEFLATED
            members[at] = (name, inner + bytes(9 << 20))
        case 1:
            del members[at]
        case 2:
            members[at] = (mutate(name.encode(), "", rng).decode("latin-1"), inner)
        case 3:
            members[at] = (name, choice(rng, members)[1])
        case 4:
            data = bytearray(content)  # sizes, flags and methods in the directory
            start = data.rfind(b"PK\1\2", 0, _place(content, rng))
            if start >= 0:
                data[start + choice(rng, (8, 10, 20, 23, 24, 27, 42))] = int(rng.integers(256))
            return bytes(data)
        case 5:
            members.append(members[at])
        case _:
            members[at] = (name, mutate(inner, name, rng))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing, compresslevel=1) as archive:
        written = set()
        for name, inner in members:
            if name not in written:  # the library warns of doubled names
                written.add(name)
                archive.writestr(zipfile.ZipInfo(name[:1000] or "x"), inner, packing)
    return out.getvalue()
