r"""PyG's :obj:`Data`, or a dictionary of tensors, as :func:`torch.save` writes it."""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
from torch_geometric.data.storage import GlobalStorage

from meanmax.data.files import Progress, report
from meanmax.data.readers.arrays import Arrays
from meanmax.data.readers.assemble import Edges, Nodes, Parts
from meanmax.data.readers.problems import Diagnostics
from meanmax.data.readers.tables import check_size, contents

# All that a Data of tensors consists of. Anything else in the file is refused before it is made.
ADMITTED = [Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]
KNOWN = ("x", "edge_index", "edge_weight", "y", "train_mask", "val_mask", "test_mask")
_ADVICE = "save it with torch.save(data, path), data holding tensors only"


def read_saved_tensors(path: Path, findings: Diagnostics, progress: Progress | None) -> Parts:
    r"""Reads :obj:`x`, :obj:`edge_index`, :obj:`y` and, if there, :obj:`edge_weight` and the three
    masks. Nothing but tensors and PyG's own containers is ever unpickled.

    Args:
        path (Path): The file.
        findings (Diagnostics): Where problems go.
        progress (callable, optional): Told the bytes read.
    """
    data = contents(path, findings, progress)
    if not data.startswith(b"PK\x03\x04"):
        findings.fail(path.name, None, "is not a file of torch.save", _ADVICE)
    saved = _load(path.name, data, findings)
    report(progress, f"unpacking {path.name}", len(data), len(data))
    arrays = Arrays(path.name, _arrays(path.name, _mapping(saved), findings), findings)
    missing = [name for name in ("x", "edge_index") if name not in arrays.arrays]
    if missing:
        arrays.fail(f"holds no tensor {' and no '.join(map(repr, missing))}", _ADVICE)
    return Parts(path.stem, *_read(arrays))


def _load(file: str, data: bytes, findings: Diagnostics) -> Any:
    with findings.parsing(file, "file of tensors", _ADVICE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions and formats, on files that are refused anyway
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            check_size(file, sum(entry.file_size for entry in archive.infolist()), findings)
        with torch.serialization.safe_globals(_not_yet_admitted()):
            try:
                return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
            except Exception as error:
                _refuse(file, str(error), findings)
                raise


def _refuse(file: str, reason: str, findings: Diagnostics) -> None:
    """Of what it does not admit, torch says how to run it nevertheless: nobody should."""
    if "weights_only" in reason:
        name = re.search(r"(?:GLOBAL|class|function)[: ]+([\w.]*\w)", reason)
        shown = f" ({name[1][:100]})" if name else ""
        message = f"holds objects other than tensors{shown}; nothing was run"
        findings.fail(file, None, message, _ADVICE)


def _not_yet_admitted() -> list[Any]:
    """What to admit for a moment: leaving the block also takes away what others had admitted."""
    already = torch.serialization.get_safe_globals()
    return [kind for kind in ADMITTED if kind not in already]


def _mapping(saved: Any) -> dict[Any, Any]:
    """The tensors by name, without calling anything of an object that a file has filled."""
    if isinstance(saved, Data):
        store = saved.__dict__.get("_store")
        saved = store.__dict__.get("_mapping") if isinstance(store, GlobalStorage) else None
    return saved if isinstance(saved, dict) else {}


def _arrays(file: str, mapping: dict[Any, Any], findings: Diagnostics) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name in KNOWN:
        value = mapping.get(name)
        if value is None:
            continue
        if not isinstance(value, Tensor) or not _is_plain(value):
            findings.fail(file, None, f"{name!r} is not a plain, dense tensor",
                          "save it with .contiguous(), or .to_dense() if it is sparse")  # fmt: skip
        with findings.parsing(file, f"tensor {name!r}", _ADVICE):
            value = value.detach()
            arrays[name] = (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    unused = sorted(str(name) for name in mapping if name not in KNOWN)
    if unused:
        findings.note(file, None, f"{', '.join(unused[:8])} not used", f"known are {KNOWN}")
    return arrays


def _is_plain(value: Tensor) -> bool:
    """Dense, in memory, and not a small storage that strides repeat to an endless tensor."""
    if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def _read(arrays: Arrays) -> tuple[Nodes, Edges]:
    x = arrays.features("x")
    count = int(x.shape[0])
    pairs = arrays.integers("edge_index", (2,))
    if pairs.shape[0] != 2 or not count:
        arrays.fail(f"'edge_index' must be [2, num_edges] of at least one node "
                    f"(got {list(pairs.shape)}, {count} nodes)", _ADVICE)  # fmt: skip
    arrays.ends("edge_index", pairs.T, count)
    weighted = "edge_weight" in arrays.arrays
    weight = arrays.weights("edge_weight", pairs.shape[1]) if weighted else None
    nodes = Nodes(arrays.file, x, arrays.labels("y", count), None, arrays.masks(count))
    source, target = np.ascontiguousarray(pairs)
    return nodes, Edges(arrays.file, source, target, weight)
