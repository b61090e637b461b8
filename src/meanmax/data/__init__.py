r"""Data sets: the benchmarks, embedded ones, generated ones and graphs from your own files."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meanmax.data.dataset import Dataset, Split, Statistics, fingerprint, statistics
    from meanmax.data.fetch.catalog import CATALOG
    from meanmax.data.files import DataError
    from meanmax.data.loading import load
    from meanmax.data.splits import development_pool, make_split

__all__ = ["CATALOG", "DataError", "Dataset", "Split", "Statistics"]
__all__ += ["development_pool", "fingerprint", "load", "make_split", "statistics"]

# Imported at first use: the catalogue and the files of a store need no PyTorch. No module of the
# package may have the name of something in this list, since importing it would replace that.
_MODULES = dict.fromkeys(__all__, "dataset") | {
    "CATALOG": "fetch.catalog",
    "DataError": "files",
    "development_pool": "splits",
    "load": "loading",
    "make_split": "splits",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'meanmax.data' has no attribute {name!r}")
    value = getattr(import_module(f"meanmax.data.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
