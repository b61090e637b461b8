r"""Experiments: the paper's tables next to our own, and what can be concluded from them."""
