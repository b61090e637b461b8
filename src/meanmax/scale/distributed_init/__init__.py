r"""Exact training on a graph that is spread over processes and machines."""

from meanmax.scale.cutting import (Cut, Piece)
from meanmax.scale.failures import RankError
from meanmax.scale.fit_fit import fit_parts
from meanmax.scale.parts_folder import (PartsError, read_manifest)
from meanmax.scale.parts_folder_folder_write import write_parts
from meanmax.scale.distributed import DistributedGraph
from meanmax.scale.collectives import Halo
from meanmax.scale.part import (Part, distributed_graph, open_part)
from meanmax.scale.ranks import (Job, LaunchError, joined_job)

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
