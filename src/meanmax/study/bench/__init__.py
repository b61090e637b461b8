r"""Times the aggregators beside their peers: every number is a ratio measured in one run."""

from meanmax.study.bench.run import Settings, run_bench

__all__ = ["Settings", "run_bench"]
