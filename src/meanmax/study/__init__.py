r"""Experiments: the paper's tables beside our own, and what can be concluded from them."""
