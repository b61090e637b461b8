r"""Graphs that do not fit: batches of nodes, inference layer by layer, and graphs on disk."""

from meanmax.scale.batches import Batches, ClusterProblem, Clusters
from meanmax.scale.collectives import Halo, Job, LaunchError, RankError, joined_job
from meanmax.scale.distributed import (
    DistributedGraph,
    Part,
    Partition,
    distributed_graph,
    is_partition,
    open_part,
    rank_sizes,
    write_partition,
)
from meanmax.scale.edges import BatchingError, CsrEdges, FolderError, group_edges, group_nodes
from meanmax.scale.fit_large import Source, exact_scores, fit_batches, fit_parts
from meanmax.scale.folder import GraphFolder, is_graph_folder, open_folder, write_folder
from meanmax.scale.inference import ExactSample, exact_rows, layerwise, predict_folder
from meanmax.scale.partition import PartitionError, assign_blocks, assign_metis, edge_cut
from meanmax.scale.sampling import NeighbourProblem, NeighbourSampler

__all__ = [
    "Batches",
    "BatchingError",
    "ClusterProblem",
    "Clusters",
    "CsrEdges",
    "DistributedGraph",
    "ExactSample",
    "FolderError",
    "GraphFolder",
    "Halo",
    "Job",
    "LaunchError",
    "NeighbourProblem",
    "NeighbourSampler",
    "Part",
    "Partition",
    "PartitionError",
    "RankError",
    "Source",
    "assign_blocks",
    "assign_metis",
    "distributed_graph",
    "edge_cut",
    "exact_rows",
    "exact_scores",
    "fit_batches",
    "fit_parts",
    "group_edges",
    "group_nodes",
    "is_graph_folder",
    "is_partition",
    "joined_job",
    "layerwise",
    "open_folder",
    "open_part",
    "predict_folder",
    "rank_sizes",
    "write_folder",
    "write_partition",
]
