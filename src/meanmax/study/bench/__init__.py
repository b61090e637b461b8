r"""Times aggregators and layers beside PyG's: every number is a ratio measured in one run."""

from __future__ import annotations

from dataclasses import dataclass, replace

AMAZON_FILE = "amazon_electronics_computers.npz"


@dataclass(frozen=True)
class BenchSettings:
    r"""The options of :obj:`meanmax bench`.

    Args:
        nodes (int, optional): Nodes of the power-law graph. (default: :obj:`13_752`)
        edges (int, optional): Its edges, self-loops counted. (default: :obj:`505_000`)
        channels (int, optional): The number of channels. (default: :obj:`64`)
        dtype (str, optional): The type of the features. (default: :obj:`"float32"`)
        repeats (int, optional): Rounds of timing. (default: :obj:`15`)
        budget (float, optional): Seconds of timed calls after which a competitor leaves the
            rounds. (default: :obj:`10.0`)
        threads (int, optional): The number of threads. (default: :obj:`2`)
        seed (int, optional): The seed of graph and features. (default: :obj:`0`)
        data_dir (str, optional): The folder of the real graph. (default: :obj:`None`)
        sweep (bool, optional): Whether to time several sizes. (default: :obj:`False`)
        max_edges (int, optional): The largest size of the sweep. (default: :obj:`10_000_000`)
        cold (bool, optional): Whether to time first calls. (default: :obj:`False`)
        measure_memory (bool, optional): Whether to measure memory. (default: :obj:`True`)
        quick (bool, optional): Whether the sizes are for trying only. (default: :obj:`False`)
    """

    nodes: int = 13_752
    edges: int = 505_000
    channels: int = 64
    dtype: str = "float32"
    repeats: int = 15
    budget: float = 10.0
    threads: int = 2
    seed: int = 0
    data_dir: str | None = None
    sweep: bool = False
    max_edges: int = 10_000_000
    cold: bool = False
    measure_memory: bool = True
    quick: bool = False

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
