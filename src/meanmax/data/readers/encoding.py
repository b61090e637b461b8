r"""Text that is UTF-8, or the lines that are not."""

from __future__ import annotations

from meanmax.data.readers.problems import Findings

_ENCODED = "save the file as UTF-8"


def as_utf8(file: str, data: bytes, findings: Findings) -> bytes:
    r"""The text without byte order mark and with a last newline; lines that are not UTF-8 are
    reported, and go on with marks for what could not be read.

    Args:
        file (str): The name of the file.
        data (bytes): Its content.
        findings (Findings): Where problems go.
    """
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        findings.fail(file, 1, "is encoded as UTF-16", _ENCODED)
    data = data.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        findings.fail(file, line, "holds a zero byte: not a text file", "export it as csv")
    try:
        data.decode()
    except UnicodeDecodeError:
        data = _replace_undecodable(file, data, findings)
    return data if data.endswith((b"\n", b"\r")) else data + b"\n"


def _replace_undecodable(file: str, data: bytes, findings: Findings) -> bytes:
    """Reports each such line and goes on with the others."""
    lines = data.splitlines()
    wrong = [row for row, line in enumerate(lines) if not _decodes(line)]
    describe = "holds bytes that are not UTF-8 ({!r})".format
    findings.each(file, wrong, lambda row: row + 1, lambda row: describe(lines[row][:40]), _ENCODED)
    return data.decode(errors="replace").encode()


def _decodes(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
