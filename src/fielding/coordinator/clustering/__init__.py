"""Stage 7: group all representations anew, and find how many groups there are.

Reading order: ``clusterer`` (the whole stage), ``kmeans`` and ``kcenter`` (candidate partitions), ``silhouette`` and
``choose_k`` (which of them), then what makes these quick.
"""

from fielding.coordinator.clustering.clusterer import PARTITIONERS, Clusterer, Clustering, Extender, Partitioner
from fielding.coordinator.clustering.distance_sums import distance_sums
from fielding.coordinator.clustering.kcenter import KCenter
from fielding.coordinator.clustering.kmeans import KMeans
from fielding.coordinator.clustering.silhouette import choose_k, mean_silhouettes

__all__ = [
    "PARTITIONERS",
    "Clusterer",
    "Clustering",
    "Extender",
    "KCenter",
    "KMeans",
    "Partitioner",
    "choose_k",
    "distance_sums",
    "mean_silhouettes",
]
