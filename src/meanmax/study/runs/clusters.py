r"""How well clusters of an embedding agree with classes."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix


def cluster_scores(embedding: np.ndarray, classes: np.ndarray, seed: int = 0) -> dict[str, float]:
    r"""The agreement of k-means clusters with classes, in percent: the accuracy under the best
    assignment of clusters to classes, normalised mutual information, and the adjusted Rand index.

    Args:
        embedding (ndarray): :obj:`[num_nodes, channels]`.
        classes (ndarray): :obj:`[num_nodes]`; there are as many clusters as classes.
        seed (int, optional): Of the first centres, of which ten are tried. (default: :obj:`0`)
    """
    count = len(np.unique(classes))
    found = KMeans(count, n_init=10, random_state=seed).fit_predict(embedding)
    return {
        "kmeans_accuracy": 100 * matched_accuracy(found, classes),
        "kmeans_nmi": 100 * float(normalized_mutual_info_score(classes, found)),
        "kmeans_ari": 100 * float(adjusted_rand_score(classes, found)),
    }


def matched_accuracy(found: np.ndarray, classes: np.ndarray) -> float:
    r"""The share of nodes whose cluster is assigned to their class, at best.

    Example:
        >>> matched_accuracy(np.array([1, 1, 0, 0]), np.array([0, 0, 1, 0]))
        0.75
    """
    counts = contingency_matrix(classes, found)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return float(counts[rows, columns].sum() / counts.sum())
