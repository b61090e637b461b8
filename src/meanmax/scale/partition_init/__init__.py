r"""Parts of a graph: which nodes belong together, and what that cuts."""

from meanmax.scale.blocks import assign_blocks
from meanmax.scale.cut import edge_cut
from meanmax.scale.errors import PartitionError
from meanmax.scale.partition import assign_metis

__all__ = ["PartitionError", "assign_blocks", "assign_metis", "edge_cut"]
