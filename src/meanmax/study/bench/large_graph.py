r"""Power-law graphs of any size, generated into a graph folder with bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from os import PathLike
from pathlib import Path

import numpy as np

from meanmax.scale.edges import Array
from meanmax.scale.folder import (
    ROLES,
    FolderWriter,
    GraphFolder,
    Manifest,
    new_folder,
    open_folder,
)
from meanmax.study.bench.graphs import DEGREE_EXPONENT, FIRST_RANK, GraphError

CHUNK = 1 << 21  # edges drawn, rows of features, or edges of a bucket at a time
CLASSES = 8
SHARES = {"train": 0.001, "val": 0.0005, "test": 0.0005}

Progress = Callable[[str, float], None]


def generate_folder(
    path: str | PathLike[str],
    num_nodes: int,
    num_edges: int,
    *,
    channels: int = 32,
    directed: bool = False,
    seed: int = 0,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> GraphFolder:
    r"""Writes a graph whose degrees follow a power law, as of Chung and Lu.

    Both ends of an edge are drawn with probability proportional to
    :math:`(i + 10)^{-1/(2.5 - 1)}`, by inverting its integral, and nodes are renumbered by
    :math:`i \mapsto a i + b \bmod n`, so that nothing is kept for each node. Self-loops and
    multiple edges are left out: somewhat fewer edges than asked for come out where hubs meet.
    Edges are sorted by target through files, a bucket at a time.

    Features are normal, and classes follow from them by a fixed linear map with noise.

    Args:
        path (str or PathLike): The folder.
        num_nodes (int): The number of nodes.
        num_edges (int): About how many edges; an undirected one counts twice.
        channels (int, optional): Channels of the features. (default: :obj:`32`)
        directed (bool, optional): Whether edges point one way. (default: :obj:`False`)
        seed (int, optional): Of everything. (default: :obj:`0`)
        overwrite (bool, optional): Whether a graph folder that is there is replaced.
            (default: :obj:`False`)
        progress (callable, optional): Called with what is being done and the share done.
    """
    if num_nodes < 2 or num_edges < 0 or num_edges > num_nodes * (num_nodes - 1) // 4:
        raise GraphError(
            f"a power-law graph of {num_nodes:,} nodes has between 0 and "
            f"{max(num_nodes, 0) * max(num_nodes - 1, 0) // 4:,} edges (got {num_edges:,})"
        )
    told = progress or (lambda what, share: None)
    with new_folder(path, overwrite=overwrite) as writer:
        found = _write_edges(writer, num_nodes, num_edges, directed, seed, told)
        _write_nodes(writer, num_nodes, channels, seed, told)
        about = {"generator": "power law", "seed": seed, "directed": directed}
        names = tuple(f"class {number}" for number in range(CLASSES))
        told("checksums", 0.0)
        writer.finish(Manifest("power-law", num_nodes, found, channels, names, False, about))
    return open_folder(path)


def _write_edges(
    writer: FolderWriter, nodes: int, edges: int, directed: bool, seed: int, told: Progress
) -> int:
    buckets = max(1, math.ceil(edges / CHUNK))
    width = math.ceil(nodes / buckets)
    kind = np.int32 if nodes < 2**31 else np.int64
    folder = writer.folder / "buckets"
    folder.mkdir()
    _draw(folder, nodes, edges, directed, seed, width, kind, told)
    rowptr = writer.array("rowptr", (nodes + 1,), np.int64)
    total, plain = 0, writer.folder / "col.raw"
    with plain.open("wb") as file:
        for bucket in range(buckets):
            first = bucket * width
            rows = max(0, min(width, nodes - first))
            count, col = _sorted_bucket(folder / str(bucket), first, rows, kind)
            if len(count):
                rowptr[first] = total
                rowptr[first + 1 : first + len(count) + 1] = total + np.cumsum(count)
            col.astype(kind).tofile(file)
            total += len(col)
            told("sorting", (bucket + 1) / buckets)
    rowptr[-1] = total
    folder.rmdir()
    _with_header(writer, plain, total, kind)
    return total


def _draw(
    folder: Path, nodes: int, edges: int, directed: bool, seed: int, width: int, kind: type,
    told: Progress,
) -> None:  # fmt: skip
    r"""Pairs in files, one for each range of targets: sources and targets in turn."""
    wanted = edges if directed else (edges + 1) // 2
    step = CHUNK // 2
    for chunk in range(0, wanted, step):
        rng = np.random.default_rng([seed, 1, chunk])
        size = min(step, wanted - chunk)
        ends = _renumbered(_ranks(rng.random((2, size)), nodes), nodes, seed)
        ends = ends[:, ends[0] != ends[1]]
        source, target = ends if directed else np.concatenate([ends, ends[::-1]], axis=1)
        owner = target // width
        order = np.argsort(owner, kind="stable")
        bounds = np.searchsorted(owner[order], np.arange(math.ceil(nodes / width) + 1))
        pairs: Array = np.stack([source[order], target[order]], axis=1).astype(kind)
        for bucket, (first, last) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
            if last > first:
                with (folder / str(bucket)).open("ab") as file:
                    pairs[first:last].tofile(file)
        told("drawing", min(1.0, (chunk + step) / max(wanted, 1)))


def _sorted_bucket(path: Path, first: int, rows: int, kind: type) -> tuple[Array, Array]:
    r"""How many edges each row of a bucket has, and their sources, none twice."""
    if not path.exists():
        return np.zeros(rows, np.int64), np.empty(0, np.int64)
    pairs: Array = np.fromfile(path, kind).reshape(-1, 2).astype(np.int64)
    path.unlink()
    stride = int(pairs[:, 0].max()) + 1
    codes = np.unique((pairs[:, 1] - first) * stride + pairs[:, 0])
    row, col = np.divmod(codes, stride)
    return np.bincount(row, minlength=rows), col


def _with_header(writer: FolderWriter, plain: Path, total: int, kind: type) -> None:
    r"""The sources, whose number is only known at the end, as an array."""
    array = writer.array("col", (total,), kind)
    with plain.open("rb") as file:
        for first in range(0, total, CHUNK):
            part: Array = np.fromfile(file, kind, min(CHUNK, total - first))
            array[first : first + len(part)] = part
    plain.unlink()


def _write_nodes(
    writer: FolderWriter, nodes: int, channels: int, seed: int, told: Progress
) -> None:
    x = writer.array("x", (nodes, channels), np.float32)
    y = writer.array("y", (nodes,), np.int64)
    weights = np.random.default_rng([seed, 2]).normal(size=(channels, CLASSES)).astype(np.float32)
    step = max(1, CHUNK * 8 // channels)
    roles: dict[str, list[Array]] = {role: [] for role in ROLES}
    for first in range(0, nodes, step):
        rng = np.random.default_rng([seed, 3, first])
        size = min(step, nodes - first)
        rows = rng.standard_normal((size, channels), np.float32)
        x[first : first + size] = rows
        noise = rng.standard_normal((size, CLASSES), np.float32)
        y[first : first + size] = (rows @ weights + noise).argmax(axis=1)
        drawn, lower = rng.random(size), 0.0
        for role, share in SHARES.items():
            inside = (drawn >= lower) & (drawn < lower + share)
            roles[role].append(first + np.flatnonzero(inside))
            lower += share
        told("features", min(1.0, (first + step) / nodes))
    for role, found in roles.items():
        writer.save(role, np.concatenate(found))


def _ranks(uniform: Array, nodes: int) -> Array:
    r"""Communicator whose density falls as a power, by the inverse of its integral."""
    power = 1 - 1 / (DEGREE_EXPONENT - 1)
    low, high = FIRST_RANK**power, (nodes + FIRST_RANK) ** power
    found = (low + uniform * (high - low)) ** (1 / power) - FIRST_RANK
    ranks: Array = np.minimum(found.astype(np.int64), nodes - 1)
    return ranks


def _renumbered(ranks: Array, nodes: int, seed: int) -> Array:
    r"""A permutation of all numbers that takes no memory."""
    rng = np.random.default_rng([seed, 4])
    # Factors up to 2**31 keep the product in 64 bits for as many nodes.
    factor = int(rng.integers(nodes // 3 + 1, nodes + 1)) if nodes < 2**31 else 2_147_483_647
    while math.gcd(factor, nodes) != 1:
        factor += 1
    return (ranks * factor + int(rng.integers(nodes))) % nodes
