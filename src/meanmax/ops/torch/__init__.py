r"""Sparse products of PyTorch, for any device."""
