r"""Readers of the benchmarks and of data that comes with libraries."""
