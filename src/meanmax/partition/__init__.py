r"""Parts of a graph: which nodes belong together, and what that cuts."""

from meanmax.partition.blocks import assign_blocks
from meanmax.partition.cut import edge_cut
from meanmax.partition.errors import PartitionError
from meanmax.partition.metis import assign_metis

__all__ = ["PartitionError", "assign_blocks", "assign_metis", "edge_cut"]
