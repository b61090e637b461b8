r"""The names that models go by, in one place that imports nothing.

Commands list them in their help, and stored rows are read by them, without loading PyTorch. A test
compares them with :mod:`meanmax.nn`, which holds what they name.
"""

from typing import Final

BACKBONES: Final = ("gcn", "masked_gcn", "gat", "cat", "sage", "gin")
AGGREGATORS: Final = ("lp", "poly", "softmax", "max")
PYG_BASELINES: Final = ("pyg-softmax", "pyg-powermean", "pna")
