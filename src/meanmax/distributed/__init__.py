r"""Exact training on a graph that is spread over processes and machines."""

from meanmax.distributed.cutting import Cut, Piece
from meanmax.distributed.failures import RankError
from meanmax.distributed.fit import fit_parts
from meanmax.distributed.folder import PartsError, read_manifest
from meanmax.distributed.folder_write import write_parts
from meanmax.distributed.graph import DistributedGraph
from meanmax.distributed.halo import Halo
from meanmax.distributed.part import Part, distributed_graph, open_part
from meanmax.distributed.ranks import Job, LaunchError, joined_job

__all__ = [
    "Cut",
    "DistributedGraph",
    "Halo",
    "Job",
    "LaunchError",
    "Part",
    "PartsError",
    "Piece",
    "RankError",
    "distributed_graph",
    "fit_parts",
    "joined_job",
    "open_part",
    "read_manifest",
    "write_parts",
]
