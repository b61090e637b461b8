r"""Parts of a data set on disk: every rank reads its own and no other."""

from __future__ import annotations

import json
import secrets
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from meanmax.data import Dataset, Split
from meanmax.graph import Graph, SparseFeatures
from meanmax.nn.linear import Features
from meanmax.scale.cutting import Cut, Piece
from meanmax.train.problem import Scaling

FORMAT = "meanmax.parts/1"
MANIFEST = "manifest.json"
CUT_ID = "cut_id.txt"
SPLITS = ("train", "val", "test")
INDICES = ("nodes", "halo", "rowptr", "col", "send")
COUNTS = ("send_counts", "receive_counts")


class PartsError(ValueError):
    r"""A folder of parts that cannot be used."""


@dataclass(frozen=True)
class Manifest:
    r"""What the parts have in common.

    Args:
        data (str): The name of the data set.
        origin (dict): Hashes and names of data and split, which tell these parts from others.
        parts (int): How many there are.
        method (str): How the nodes were assigned.
        num_nodes (int): Nodes of the whole graph.
        num_edges (int): Its edges.
        cut_edges (int): Edges between nodes of different parts.
        num_features (int): Channels of the features.
        sparse (bool): Whether the features are sparse.
        weighted (bool): Whether edges have weights.
        class_names (list): The classes, or the labels.
        counts (dict): How many nodes train, validate and test.
        cut_id (str): Drawn at random; every part carries it, so that parts are not mixed.
        format (str): The version of this layout.
    """

    data: str
    origin: dict[str, Any]
    parts: int
    method: str
    num_nodes: int
    num_edges: int
    cut_edges: int
    num_features: int
    sparse: bool
    weighted: bool
    class_names: list[str]
    counts: dict[str, int]
    cut_id: str
    format: str = FORMAT


def read_manifest(folder: Path) -> Manifest:
    r"""What a folder says about its parts."""
    try:
        found = json.loads((folder / MANIFEST).read_text("utf-8"))
        manifest = Manifest(**found)
    except FileNotFoundError:
        raise PartsError(f"{folder} holds no parts ({MANIFEST} is missing)") from None
    except (TypeError, ValueError, UnicodeDecodeError) as error:
        raise PartsError(_damaged(folder / MANIFEST)) from error
    if manifest.format != FORMAT:
        raise PartsError(f"{folder} is of another version ({manifest.format!r}, not {FORMAT!r})")
    return manifest


@dataclass(frozen=True, eq=False)
class StoredPart:
    r"""What one rank reads.

    Args:
        piece (Piece): Its rows of the graph.
        x (Tensor or SparseFeatures): Features of own nodes.
        y (Tensor): Their labels.
        split (dict): Own nodes that train, validate and test, by their place here.
        weight (Tensor, optional): Weights of the edges.
        scaling (Scaling): How the whole data set's features are brought to a common scale.
    """

    piece: Piece
    x: Features
    y: Tensor
    split: dict[str, Tensor]
    weight: Tensor | None
    scaling: Scaling


def read_part(folder: Path, rank: int, manifest: Manifest) -> StoredPart:
    r"""The part of one rank.

    Args:
        folder (Path): The folder.
        rank (int): The rank.
        manifest (Manifest): What :func:`read_manifest` gave.
    """
    own = folder / part_name(rank)
    if not (own / CUT_ID).is_file() or (own / CUT_ID).read_text("utf-8") != manifest.cut_id:
        raise PartsError(f"{own} is not of the same cut as {folder / MANIFEST}: cut anew")
    fields: dict[str, Any] = {name: _load(own, name) for name in INDICES}
    fields |= {name: tuple(_load(own, name).tolist()) for name in COUNTS}
    x: Features
    if manifest.sparse:
        stored = [torch.from_numpy(_load(own, f"x_{name}")) for name in ("rowptr", "col", "value")]
        words = Graph.from_csr(stored[0], stored[1], num_src=manifest.num_features)
        x = SparseFeatures(words, stored[2])
    else:
        x = torch.from_numpy(_load(own, "x"))
    mean, scale = (torch.from_numpy(_load(folder, name)) for name in ("mean", "scale"))
    part = StoredPart(
        piece=Piece(**fields),
        x=x,
        y=torch.from_numpy(_load(own, "y")),
        split={name: torch.from_numpy(_load(own, name)) for name in SPLITS},
        weight=torch.from_numpy(_load(own, "weight")) if manifest.weighted else None,
        scaling=Scaling(manifest.sparse, mean, scale),
    )
    if not _fits(part, manifest):
        raise PartsError(_damaged(own))
    return part


def _fits(part: StoredPart, manifest: Manifest) -> bool:
    r"""Whether the arrays of a part go together."""
    piece, own = part.piece, len(part.piece.nodes)
    sources, edges = own + len(piece.halo), len(piece.col)
    return (
        len(piece.rowptr) == own + 1
        and part.x.shape == (own, manifest.num_features)
        and len(part.y) == own
        and (part.weight is None or len(part.weight) == edges)
        and int(piece.rowptr[0]) == 0
        and int(piece.rowptr[-1]) == edges
        and bool((np.diff(piece.rowptr) >= 0).all())
        and len(piece.send_counts) == len(piece.receive_counts) == manifest.parts
        and sum(piece.send_counts) == len(piece.send)
        and sum(piece.receive_counts) == len(piece.halo)
        and _within(piece.col, sources)
        and _within(piece.send, own)
        and all(_within(index.numpy(), own) for index in part.split.values())
    )


def _within(index: np.ndarray, size: int) -> bool:
    return index.size == 0 or (index.min() >= 0 and index.max() < size)


def _load(folder: Path, name: str) -> np.ndarray:
    path = folder / f"{name}.npy"
    try:
        loaded: Any = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise PartsError(f"{path} is missing: delete the folder of parts to cut anew") from None
    except (OSError, ValueError, EOFError) as error:
        raise PartsError(_damaged(path)) from error
    array: np.ndarray = loaded
    return array


def _damaged(path: Path) -> str:
    return f"{path} is damaged: delete the folder of parts to cut anew"


def part_name(rank: int) -> str:
    r"""The folder of a rank's part."""
    return f"part-{rank:05d}"


def write_parts(
    folder: Path, dataset: Dataset, split: Split, part: Tensor, num_parts: int, *,
    origin: dict[str, Any], method: str,
) -> Manifest:  # fmt: skip
    r"""Cuts a data set and writes a folder that is there as a whole or not at all.

    Args:
        folder (Path): The folder; it must not be there yet.
        dataset (Dataset): The data, of one graph.
        split (Split): Which nodes train, validate and test.
        part (Tensor): The rank of each node, :obj:`[num_nodes]`.
        num_parts (int): The number of ranks.
        origin (dict): Hashes and names of data and split.
        method (str): How the nodes were assigned.
    """
    graph = dataset.graph()
    cut = Cut(graph, part, num_parts)
    folder.parent.mkdir(parents=True, exist_ok=True)
    cut_id = secrets.token_hex(8)
    temporary = folder.with_name(f".{folder.name}.{cut_id}")
    try:
        temporary.mkdir()
        _save(temporary, **_scaling_arrays(Scaling.of(dataset.x)))
        weight = None if graph.weight is None else graph.weight.numpy()
        for rank in range(num_parts):
            own = None if weight is None else weight[cut.edges(rank)]
            _write_piece(temporary / part_name(rank), cut.piece(rank), dataset, split, own)
            (temporary / part_name(rank) / CUT_ID).write_text(cut_id, "utf-8")
        manifest = Manifest(
            data=dataset.name,
            origin=origin,
            parts=num_parts,
            method=method,
            num_nodes=graph.num_nodes,
            num_edges=graph.num_edges,
            cut_edges=_cut_edges(cut),
            num_features=dataset.num_features,
            sparse=isinstance(dataset.x, SparseFeatures),
            weighted=weight is not None,
            class_names=list(dataset.class_names),
            counts={name: getattr(split, name).numel() for name in SPLITS},
            cut_id=cut_id,
        )
        (temporary / MANIFEST).write_text(json.dumps(asdict(manifest), indent=1), "utf-8")
        temporary.rename(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return manifest


def _write_piece(
    folder: Path, piece: Piece, dataset: Dataset, split: Split, weight: np.ndarray | None
) -> None:
    folder.mkdir()
    _save(folder, **{name: np.asarray(getattr(piece, name)) for name in INDICES + COUNTS})
    _save(folder, **_feature_arrays(dataset.x, piece.nodes))
    _save(folder, y=dataset.y.numpy()[piece.nodes])
    for name in SPLITS:
        inside = np.isin(piece.nodes, getattr(split, name).numpy(), assume_unique=True)
        _save(folder, **{name: np.flatnonzero(inside)})
    if weight is not None:
        _save(folder, weight=weight)


def _feature_arrays(x: Features, nodes: np.ndarray) -> dict[str, np.ndarray]:
    if isinstance(x, Tensor):
        return {"x": x.numpy()[nodes]}
    rows = x.to_scipy()[nodes]
    return {"x_rowptr": rows.indptr, "x_col": rows.indices, "x_value": rows.data}


def _scaling_arrays(scaling: Scaling) -> dict[str, np.ndarray]:
    return {"mean": scaling.mean.numpy(), "scale": scaling.scale.numpy()}


def _cut_edges(cut: Cut) -> int:
    target = np.repeat(cut.part, np.diff(cut.rowptr))
    return int((cut.part[cut.col] != target).sum())


def _save(folder: Path, **arrays: np.ndarray) -> None:
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", np.ascontiguousarray(values), allow_pickle=False)
