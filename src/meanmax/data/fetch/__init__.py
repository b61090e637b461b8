r"""Files of the benchmarks: names, pins, downloads."""
