r"""Passes over all nodes with bounded memory: of each on its own, and of each with neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from meanmax.scale.edges_blocks import (Block, BlockGraphs)
from meanmax.scale.edges import Loops
from meanmax.scale.rows import (DenseRows, Rows)
from meanmax.scale.scratch import Store
from meanmax.graph.checks import Normalize
from meanmax.nn.linear import (Features, as_dense)
from meanmax.nn.neighbourhood import Neighbourhood

OnRows = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Passes:
    r"""What a pass works with.

    Args:
        graphs (BlockGraphs): Makes the graphs of blocks.
        store (Store): Gives room for results.
        memory (int): About how many bytes the arrays of one block may take.
        on_rows (callable, optional): Called with the number of rows after each block.
    """

    graphs: BlockGraphs
    store: Store
    memory: int
    on_rows: OnRows | None = None

    def mapped(self, rows: Rows, function: Callable[[Features], Tensor], width: int) -> DenseRows:
        r"""A function of each row.

        Args:
            rows (Rows): The rows.
            function (callable): From features of any nodes to as many rows of results.
            width (int): The channels of a result.
        """
        size, channels = rows.shape
        out = self.store.array(size, width)
        step = max(1, self.memory // (16 * (channels + width)))
        for first in range(0, size, step):
            last = min(first + step, size)
            out[first:last] = function(rows.read(first, last)).numpy()
        return DenseRows(out)

    def over_neighbours(
        self,
        rows: Rows,
        function: Callable[[Block, Tensor], Tensor],
        width: int,
        *,
        normalize: Normalize | None = None,
        loops: Loops = "none",
        heads: int = 1,
    ) -> DenseRows:
        r"""A function of the neighbours of each row.

        Args:
            rows (Rows): The rows.
            function (callable): From a block and the rows of its sources to results of its rows.
            width (int): The channels of a result.
            normalize (str, optional): How weights are normalised. (default: :obj:`None`)
            loops (str, optional): Which self-loops there are. (default: :obj:`"none"`)
            heads (int, optional): Numbers for each edge that the function makes.
                (default: :obj:`1`)
        """
        channels = rows.shape[1]
        out = self.store.array(rows.shape[0], width)
        # An edge may be the only one of its source: a row read, two of tilts, and its indices.
        edge_bytes, row_bytes = 48 + 16 * heads + 16 * channels, 24 * (channels + width)
        for first, last in self.graphs.edges.blocks(edge_bytes, row_bytes, self.memory):
            block = self.graphs.block(first, last, normalize, loops)
            source = as_dense(rows.gather(block.sources))
            out[first:last] = function(block, source).numpy()
            if self.on_rows is not None:
                self.on_rows(last - first)
        return DenseRows(out)

    def lowest(self, rows: Rows) -> float:
        r"""The smallest number in all rows: :math:`\mu`."""
        size, channels = rows.shape
        step, found = max(1, self.memory // (8 * channels)), np.inf
        for first in range(0, size, step):
            part = as_dense(rows.read(first, min(first + step, size)))
            found = min(found, float(part.amin()))
        return found

    def origin(self, aggr: Neighbourhood, rows: Rows) -> Tensor | None:
        r""":math:`\mu` of all rows, if the aggregation measures from it."""
        if aggr.learned is None or not aggr.learned.has_mu or 0 in rows.shape:
            return None
        return torch.tensor(self.lowest(rows), dtype=torch.float32)
