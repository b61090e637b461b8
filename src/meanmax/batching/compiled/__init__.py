r"""Compiled loops over rows of compressed graphs."""
