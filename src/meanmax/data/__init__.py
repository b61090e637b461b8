r"""Data sets: the benchmarks, embedded ones, generated ones and a person's own graph."""

from meanmax.data.dataset import Dataset, Split, fingerprint
from meanmax.data.fetch.catalog import CATALOG
from meanmax.data.files import DataError
from meanmax.data.load import load
from meanmax.data.splits import make_split
from meanmax.data.statistics import Statistics, statistics

__all__ = [
    "CATALOG",
    "DataError",
    "Dataset",
    "Split",
    "Statistics",
    "fingerprint",
    "load",
    "make_split",
    "statistics",
]
