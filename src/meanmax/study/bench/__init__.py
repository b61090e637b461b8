r"""Compares aggregators and layers with PyG's: every number is a ratio measured in one run."""

from __future__ import annotations

from dataclasses import dataclass, replace

AMAZON_FILE = "amazon_electronics_computers.npz"


@dataclass(frozen=True)
class BenchSettings:
    r"""The options of :obj:`meanmax bench`."""

    nodes: int = 13_752  # nodes of the power-law graph
    edges: int = 505_000  # its edges, self-loops counted
    channels: int = 64
    dtype: str = "float32"  # the type of the features
    repeats: int = 15  # rounds of timing
    budget: float = 10.0  # seconds of timed calls after which a competitor leaves the rounds
    threads: int = 2
    seed: int = 0  # the seed of graph and features
    data_dir: str | None = None  # the folder of the real graph
    sweep: bool = False  # whether to time several sizes
    max_edges: int = 10_000_000  # the largest size of the sweep
    cold: bool = False  # whether to time first calls
    measure_memory: bool = True
    quick: bool = False  # whether the sizes are for trying only

    def resolved(self) -> BenchSettings:
        r"""The settings that are run: at :obj:`quick`, small sizes in place of those given."""
        if not self.quick:
            return self
        return replace(
            self,
            nodes=500,
            edges=5_000,
            channels=8,
            repeats=min(self.repeats, 3),
            budget=min(self.budget, 1.0),
            max_edges=min(self.max_edges, 10_000),
        )
