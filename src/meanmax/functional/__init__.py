r"""The functional core: aggregations as pure functions of features, graph and parameter."""

from meanmax.functional.ends import (max, mean, sum)
from meanmax.functional.lp import lp
from meanmax.functional.polynomial import polynomial
from meanmax.functional.softmax import softmax

__all__ = ["lp", "max", "mean", "polynomial", "softmax", "sum"]
