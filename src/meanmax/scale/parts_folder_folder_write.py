r"""Cuts a data set and writes its parts."""

from __future__ import annotations

import json
import secrets
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from meanmax.data import (Dataset, Split)
from meanmax.scale.cutting import (Cut, Piece)
from meanmax.scale.parts_folder import (COUNTS, CUT_ID, INDICES, MANIFEST, SPLITS, Manifest, part_name)
from meanmax.graph import SparseFeatures
from meanmax.nn.linear import Features
from meanmax.train.scaling import Scaling


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
