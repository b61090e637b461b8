r"""Figures from stored runs."""
