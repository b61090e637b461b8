r"""Figures and a page from stored runs."""
