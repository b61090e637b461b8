r"""Runs: planned, executed in parallel, described by rows."""
