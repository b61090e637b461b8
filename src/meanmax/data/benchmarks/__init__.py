r"""Readers of the benchmarks, and data sets that other libraries contain or that are generated."""
