"""Writes pickles as Python 2 did, instruction by instruction, for a tiny citation graph."""

import struct

import numpy as np


def number(value):
    return b"J" + struct.pack("<i", value)


def text(value):
    return b"T" + struct.pack("<I", len(value)) + value


def array(values):
    dtype = b"cnumpy\ndtype\n" + text(values.dtype.str[1:].encode()) + number(0) + number(1)
    dtype += b"\x87R(" + number(3) + text(b"<") + b"NNN" + number(-1) * 2 + number(0) + b"tb"
    shape = b"(" + b"".join(number(size) for size in values.shape) + b"t"
    start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + number(0) + b"\x85"
    start += text(b"b") + b"\x87R"
    return start + b"(" + number(1) + shape + dtype + b"\x89" + text(values.tobytes()) + b"tb"


def csr(matrix):
    parts = [text(b"_shape") + number(matrix.shape[0]) + number(matrix.shape[1]) + b"\x86"]
    for name in ("data", "indices", "indptr"):
        parts.append(text(name.encode()) + array(getattr(matrix, name)))
    return b"cscipy.sparse.csr\ncsr_matrix\n)\x81}(" + b"".join(parts) + b"ub"


def graph(lists):
    items = (
        number(node) + b"](" + b"".join(map(number, ends)) + b"e" for node, ends in lists.items()
    )
    return b"ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R(" + b"".join(items) + b"u"


def pickle(body):
    return b"\x80\x02" + body + b"."


def tiny_cora(classes=7):
    """Seven nodes: 4 with training rows, test ids 6 and 4, and node 5 missing among them."""
    from scipy.sparse import csr_array

    words = np.array([[1, 1, 0], [0, 2, 0], [0, 0, 0], [1, 1, 2]], np.float32)
    test_words = np.array([[0, 1, 0], [4, 0, 4]], np.float32)
    one_hot = np.eye(classes, dtype=np.int32)
    bodies = {
        "x": csr(csr_array(words[:2])),
        "y": array(one_hot[[0, 1]]),
        "allx": csr(csr_array(words)),
        "ally": array(one_hot[[0, 1, 2, 3]]),
        "tx": csr(csr_array(test_words)),
        "ty": array(one_hot[[4, 5]]),
        # 0-1 twice, 2-2 a self-loop, 3-6 and 4-3
        "graph": graph({0: [1, 1], 1: [0], 2: [2], 3: [6, 4], 4: [3], 5: [], 6: [3]}),
    }
    files = {f"ind.cora.{part}": pickle(body) for part, body in bodies.items()}
    return files | {"ind.cora.test.index": b"6\n4\n"}
