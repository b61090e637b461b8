r"""Compiles the kernels ahead of use."""

from __future__ import annotations

import itertools
import sys

import click

from meanmax.names import AGGREGATORS, BACKBONES, WITHOUT_AGGREGATOR


@click.command()
@click.option("--float64", is_flag=True, help="Compile the kernels for float64 as well.")
def warmup(float64: bool) -> None:
    r"""Compile the kernels now, for images and clusters.

    Otherwise they are compiled at first use, once per machine. Prints the folder that holds them.
    """
    from meanmax.kernel_cache import folders

    models: list[tuple[str, str | None]] = [(name, None) for name in BACKBONES]
    aggregating = [name for name in BACKBONES if name not in WITHOUT_AGGREGATOR]
    models += itertools.product(aggregating, AGGREGATORS)
    with click.progressbar(models, label="Compiling kernels", file=sys.stderr) as bar:
        for backbone, aggr in bar:
            _train_step(backbone, aggr, float64)
    click.echo(next(folders()))


def _train_step(backbone: str, aggr: str | None, float64: bool) -> None:
    r"""Runs all kernels of a model: on dense and sparse features, and on features so far apart that
    rows need the exact path.
    """
    import torch

    from meanmax.graph import Graph, SparseFeatures
    from meanmax.nn import build_model

    generator = torch.Generator().manual_seed(0)
    graph = Graph.from_edge_index(torch.randint(20, (2, 60), generator=generator), 20)
    x = torch.randn(20, 6, generator=generator)
    for dtype in (torch.float32, torch.float64) if float64 else (torch.float32,):
        model = build_model(backbone, aggr, 6, 8, 3).to(dtype)
        for scale in (1.0, 1000.0):
            dense = (scale * x).to(dtype)
            for features in (dense, SparseFeatures.from_dense(dense, dtype)):
                model(features, graph).sum().backward()
