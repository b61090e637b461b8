r"""Graphs that do not fit: batches of nodes, inference layer by layer, and graphs on disk."""

from meanmax.scale.batches import Batches
from meanmax.scale.clusters import (ClusterProblem, Clusters)
from meanmax.scale.edges import Edges
from meanmax.scale.edges_errors import (BatchingError, FolderError)
from meanmax.scale.exact_sample import (ExactSample, exact_rows)
from meanmax.scale.fit import (exact_scores, fit_batches)
from meanmax.scale.folder import (GraphFolder, open_folder)
from meanmax.scale.folder_write import write_folder
from meanmax.scale.layerwise import layerwise
from meanmax.scale.manifest import is_graph_folder
from meanmax.scale.neighbours import NeighbourProblem
from meanmax.scale.predict import predict_folder
from meanmax.scale.sampling import NeighbourSampler
from meanmax.scale.source import Source

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
