r"""The graph that some nodes of a graph induce."""

from __future__ import annotations

import numpy as np
import torch

from meanmax.scale.edges import (Array, Edges)
from meanmax.graph import Graph


class Induced:
    r"""Takes nodes out of a graph together with the edges among them.

    It keeps four bytes for each node, and reads the rows of the nodes alone.

    Args:
        edges (Edges): The whole graph.
    """

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        self._place = np.full(edges.num_nodes, -1, np.int32)

    def graph(self, nodes: Array, wanted: Array) -> tuple[Graph, Array]:
        r"""The graph of some different nodes, in their order, with the weights of the edges among
        them; and where in it other nodes are, -1 where they are not.

        Args:
            nodes (ndarray): The nodes, int64.
            wanted (ndarray): The other nodes, int64.
        """
        rows = self.edges.chosen(nodes)
        self._place[nodes] = np.arange(len(nodes), dtype=np.int32)
        local, places = self._place[rows.column], self._place[wanted]
        self._place[nodes] = -1
        kept = local >= 0
        before = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept, out=before[1:])
        weight = None if rows.weight is None else torch.from_numpy(rows.weight[kept])
        pointer = torch.from_numpy(before[rows.pointer])
        graph = Graph.from_csr(pointer, torch.from_numpy(local[kept]), weight=weight)
        return graph, places
