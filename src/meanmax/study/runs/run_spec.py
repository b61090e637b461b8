r"""Which run it is: everything that its outcome depends on but the machine."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from meanmax.data.split import Split


@dataclass(frozen=True)
class RunSpec:
    r"""One model on one split of one data set, from one seed, with its settings.

    Args:
        data (str): The name of the data set.
        data_hash (str): The fingerprint of the prepared data.
        split (str): The scheme of the split.
        split_seed (int): Its seed, or the row of a split file.
        split_hash (str): The hash of which nodes train, validate and test.
        seed (int): Of weights, dropout and the order of batches.
        backbone (str): The backbone.
        aggr (str): The aggregator; :obj:`"none"` for the backbone's own.
        settings (dict): What :func:`~meanmax.study.settings.settings.settings_for` gives.
    """

    data: str
    data_hash: str
    split: str
    split_seed: int
    split_hash: str
    seed: int
    backbone: str
    aggr: str
    settings: dict[str, Any]

    @cached_property
    def key(self) -> str:
        r"""A name for the run: equal exactly if everything but names of data and scheme is."""
        facts = asdict(self)
        del facts["data"], facts["split"], facts["split_seed"]
        text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:20]

    def __str__(self) -> str:
        return f"{self.backbone}+{self.aggr} on {self.data}, split {self.split_seed}"


def split_hash(split: Split) -> str:
    r"""The hash of which nodes are in which part of a split."""
    digest = hashlib.sha256()
    for part in (split.train, split.val, split.test):
        digest.update(part.numel().to_bytes(8, "little"))
        digest.update(part.sort().values.numpy().astype("<i8").tobytes())
    return digest.hexdigest()[:20]
