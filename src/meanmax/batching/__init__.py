r"""Graphs that do not fit: batches of nodes, inference layer by layer, and graphs on disk."""

from meanmax.batching.batches import Batches
from meanmax.batching.clusters import ClusterProblem, Clusters
from meanmax.batching.edges import Edges
from meanmax.batching.errors import BatchingError, FolderError
from meanmax.batching.exact_sample import ExactSample, exact_rows
from meanmax.batching.fit import exact_scores, fit_batches
from meanmax.batching.folder import GraphFolder, open_folder
from meanmax.batching.folder_write import write_folder
from meanmax.batching.layerwise import layerwise
from meanmax.batching.manifest import is_graph_folder
from meanmax.batching.neighbours import NeighbourProblem
from meanmax.batching.predict import predict_folder
from meanmax.batching.sampler import NeighbourSampler
from meanmax.batching.source import Source

__all__ = [
    "BatchingError",
    "Batches",
    "ClusterProblem",
    "Clusters",
    "Edges",
    "ExactSample",
    "FolderError",
    "GraphFolder",
    "NeighbourProblem",
    "NeighbourSampler",
    "Source",
    "exact_rows",
    "exact_scores",
    "fit_batches",
    "is_graph_folder",
    "layerwise",
    "open_folder",
    "predict_folder",
    "write_folder",
]
