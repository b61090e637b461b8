r"""The classes of the nodes that an embedding is of."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from meanmax.data import (DataError, fingerprint, load)
from meanmax.study.runs.row import Row
from meanmax.study.report.figures.request import NothingToShow


def classes_of(
    row: Row, *, source: str | None = None, data_dir: Path | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    r"""The class of each node, -1 for none, and the names of classes.

    They are read from the data, which must be those that the run was made on; nothing is
    downloaded.

    Args:
        row (Row): The run.
        source (str, optional): The path of a person's own graph. (default: the name of the data)
        data_dir (Path, optional): A folder to look in first. (default: :obj:`None`)
    """
    source = source or row.data
    try:
        dataset = load(source, data_dir=data_dir, download=False)
    except (DataError, OSError) as error:
        raise NothingToShow(
            f"the classes of '{row.data}' are not at hand: fetch the data with 'meanmax data fetch "
            f"{row.data}', or give --data the path of your own graph ({str(error).splitlines()[0]})"
        ) from error
    if dataset.task != "multiclass" or dataset.num_graphs > 1:
        raise NothingToShow(
            f"t-SNE is coloured by class, and '{row.data}' is several graphs or has several labels "
            f"for a node: choose other --data"
        )
    if fingerprint(dataset)[: len(row.data_hash)] != row.data_hash:
        raise NothingToShow(
            f"the data at '{source}' are not those that the runs on '{row.data}' were made on: "
            f"give their place with --data-dir, or make the runs again"
        )
    return dataset.y.numpy(), dataset.class_names
