r"""Cora, Citeseer and Pubmed, prepared."""

from __future__ import annotations

import torch

from meanmax.data.benchmarks import cora_text
from meanmax.data.dataset import Dataset
from meanmax.data.errors import DataError
from meanmax.data.matrices import undirected
from meanmax.data.benchmarks.citation import read_planetoid
from meanmax.data.scaling import normalise_rows
from meanmax.graph import SparseFeatures

_CLASSES = {
    "cora": cora_text.CLASSES,
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": ("Experimental", "Type 1", "Type 2"),
}
_NOTES = (
    "Features divided by their sum in each row.",
    "Undirected; duplicate citations and self-citations removed.",
)


def read_citation(name: str, files: dict[str, bytes]) -> Dataset:
    r"""Prepares a citation graph: rows of features sum to 1, each edge stands once for each
    direction, nobody cites himself. Nodes are in Planetoid's order, whichever files they are from.

    Args:
        name (str): :obj:`cora`, :obj:`citeseer` or :obj:`pubmed`.
        files (dict): The content of Planetoid's eight files, or of :obj:`cora.content` and
            :obj:`cora.cites`, by their names.
    """
    if "cora.content" in files:
        raw = cora_text.read_cora_text(files["cora.content"], files["cora.cites"])
    else:
        raw = read_planetoid(name, files)
    if raw.y.size == 0 or raw.y.max() >= len(_CLASSES[name]):
        raise DataError(f"the files of '{name}' must have {len(_CLASSES[name])} classes")
    return Dataset(
        name,
        SparseFeatures.from_scipy(normalise_rows(raw.x)),
        torch.from_numpy(raw.y),
        undirected(raw.source, raw.target, raw.y.size),
        class_names=_CLASSES[name],
        split=raw.split,
        notes=_NOTES,
        scheme="citation",
    )
