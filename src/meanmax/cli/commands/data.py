r"""The commands :obj:`meanmax data list | show | facts | fetch | check | pack`."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group
from rich.table import Table

from meanmax.cli import options
from meanmax.cli.commands.partition import CUTS, cut_graph
from meanmax.cli.progress import data_bars, load_dataset
from meanmax.cli.tables import Grid, count, print_result
from meanmax.data import CATALOG, DataError

if TYPE_CHECKING:
    from meanmax.data import Dataset, Statistics
    from meanmax.data.readers import DataProblem

SHOWN_CLASSES = 8  # largest, and as many smallest
LABELS = {
    "self_loops": "self-loops",
    "mean_degree": "mean degree",
    "max_degree": "largest degree",
    "isolated": "isolated nodes",
    "density": "feature density",
}
TARGET = {
    "min": "smallest target",
    "mean": "mean target",
    "max": "largest target",
    "std": "standard deviation",
}


@click.group()
def data() -> None:
    r"""Data sets by name, and graphs of your own."""


@data.command("list")
@options.data_dir
@options.as_json
def list_sets(data_dir: Path | None, print_json: bool) -> None:
    r"""List the named data sets, and which of them are on disk."""
    rows = [
        {
            "name": entry.name,
            "kind": entry.kind,
            "title": entry.title,
            "paper": entry.paper._asdict() if entry.paper else None,
            "on_disk": not entry.needs_files or entry.located(data_dir) is not None,
        }
        for entry in CATALOG.values()
    ]
    print_result(print_json, rows, _list_table(rows))


@data.command()
@click.argument("name_or_path")
@options.data_dir
@options.own_graph
@options.as_json
def show(name_or_path: str, print_json: bool, **place: Any) -> None:
    r"""Show the statistics of a data set, or of your own graph, next to the paper's Table 1."""
    from meanmax.data import statistics

    with options.clear_errors():
        dataset = load_dataset(name_or_path, **place)
        counted = statistics(dataset)
    entry = CATALOG.get(name_or_path)
    facts = _facts(name_or_path, dataset)
    paper = entry.paper._asdict() if entry and entry.paper else None
    shown = {**facts, "statistics": dataclasses.asdict(counted), "paper": paper}
    print_result(print_json, shown, _statistics_table(facts, counted, paper))


@data.command()
@click.argument("names_or_paths", nargs=-1, required=True, metavar="NAME_OR_PATH...")
@options.scheme
@options.data_dir
def facts(names_or_paths: tuple[str, ...], scheme: str | None, data_dir: Path | None) -> None:
    r"""Print what may explain a result on a data set: degree, homophily, feature density and the
    share of labels that train, one line of JSON for each data set and scheme of splits.

    `meanmax reproduce study` reads such lines from the file datasets.jsonl next to its rows.
    """
    from meanmax.study.report.why import Facts

    with options.clear_errors():
        for source in names_or_paths:
            found = Facts.of(load_dataset(source, data_dir), scheme)
            click.echo(json.dumps(dataclasses.asdict(found)))


@data.command()
@click.argument("names", nargs=-1, required=True)
@options.data_dir
def fetch(names: tuple[str, ...], data_dir: Path | None) -> None:
    r"""Download data sets unless they are on disk, and check them."""
    from meanmax.data.fetch.catalog import unknown_name
    from meanmax.data.fetch.sources import fetch as fetch_files

    for name in names:
        if name not in CATALOG:
            raise click.ClickException(unknown_name(name))
    failed = []
    for name in names:
        if not CATALOG[name].needs_files:
            click.echo(f"{name}: needs no files")
            continue
        try:
            with data_bars() as progress:
                paths = fetch_files(name, data_dir=data_dir, progress=progress)
            click.echo(f"{name}: {count(len(paths), 'file')} in {paths[0].parent}")
        except (DataError, OSError) as error:
            failed.append(f"{name}: {error}")
    if failed:
        raise click.ClickException("\n".join(failed))


@data.command()
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@options.own_graph
@options.as_json
def check(path: Path, print_json: bool, **own: Any) -> None:
    r"""Look for problems in the files of your own graph. The exit code is 1 if there are errors."""
    from meanmax.data.readers import read_and_check

    with data_bars() as progress:
        dataset, problems = read_and_check(path, progress=progress, **own)
    if print_json:
        click.echo(json.dumps([dataclasses.asdict(problem) for problem in problems], indent=1))
    else:
        for problem in problems:
            click.echo(_located(problem, path))
        click.echo(_check_summary(dataset, problems))
    if dataset is None:
        sys.exit(1)


@data.command()
@click.argument("name_or_path")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--parts",
    type=options.POSITIVE,
    help="Cut the graph into this many clusters, whose nodes are stored together.",
)
@click.option("--cut", type=click.Choice(CUTS), default="metis", help="How the graph is cut.")
@options.scheme
@options.split_seed
@click.option("--force", is_flag=True, help="Overwrite a graph folder that exists.")
@options.data_dir
@options.own_graph
def pack(
    name_or_path: str,
    folder: Path,
    parts: int | None,
    cut: str,
    scheme: str | None,
    split_seed: int,
    force: bool,
    **place: Any,
) -> None:
    r"""Write a graph to a FOLDER of arrays that are read from disk as they are needed.

    `meanmax train --data FOLDER` then trains in clusters, and `meanmax predict` computes layer by
    layer, with bounded memory.
    """
    if parts is None:
        options.refuse(("cut",), "without --parts")
    from meanmax.data import make_split
    from meanmax.data.splits import default_scheme
    from meanmax.scale import write_folder

    with options.clear_errors(ValueError):
        dataset = load_dataset(name_or_path, **place)
        if dataset.level == "graph":
            raise DataError(
                f"'{name_or_path}' has labels of whole graphs, which are trained from memory: pack "
                "is for one large graph"
            )
        split = make_split(dataset, scheme or default_scheme(dataset), split_seed)
        part = None if parts is None else cut_graph(dataset, parts, cut)
        facts = write_folder(folder, dataset, part=part, split=split, overwrite=force).manifest
    nodes, edges = count(facts.num_nodes, "node"), count(facts.num_edges, "edge")
    click.echo(f"{nodes} and {edges} in {folder}")


def _list_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        caption="counts as in the paper's Table 1; 'meanmax data show NAME' counts what is here",
        caption_justify="left",
    )
    for heading in ("name", "kind", "nodes", "edges", "classes", "on disk", "what"):
        right = heading in ("nodes", "edges", "classes")
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading != "what")
    for row in rows:
        paper = row["paper"] or {}
        counts = [_cell(paper.get(name)) for name in ("nodes", "edges", "classes")]
        table.add_row(row["name"], row["kind"], *counts, _cell(row["on_disk"]), row["title"])
    return table


def _facts(name: str, dataset: Dataset) -> dict[str, Any]:
    from meanmax.data.dataset import class_sizes
    from meanmax.data.matrices import DEGREE_NAMES

    own = "own graph" if dataset.num_graphs == 1 else "own graphs"
    entry = CATALOG.get(name.partition(":")[0])  # sbm:nodes=100 is an sbm
    return {
        "name": dataset.name,
        "title": entry.title if entry else f"{own}: {name}",
        "licence": entry.licence if entry else None,
        "source": entry.source if entry else None,
        "notes": list(dataset.notes),
        "task": dataset.task,
        "level": dataset.level,
        "graph_sizes": _graph_sizes(dataset),
        "degree_features": dataset.feature_names == DEGREE_NAMES,
        "class_names": list(dataset.class_names),
        "class_sizes": class_sizes(dataset),
        "target": _target_facts(dataset),
        "splits": len(dataset.splits) or int(dataset.split is not None),
    }


def _graph_sizes(dataset: Dataset) -> dict[str, float] | None:
    r"""The number of nodes of several graphs."""
    if dataset.num_graphs == 1:
        return None
    sizes = dataset.graph_ptr.diff()
    return {
        "mean": float(sizes.double().mean()),
        "min": int(sizes.min()),
        "max": int(sizes.max()),
    }


def _target_facts(dataset: Dataset) -> dict[str, float] | None:
    r"""The range of a regression target."""
    if dataset.task != "regression":
        return None
    y = dataset.y[dataset.labelled].double()
    deviation = float(y.std(correction=0))
    return {"min": float(y.min()), "mean": float(y.mean()), "max": float(y.max()), "std": deviation}


def _statistics_table(
    facts: dict[str, Any], counted: Statistics, paper: dict[str, int] | None
) -> Group:
    left_out = {"classes", "homophily"} if facts["target"] else set()
    left_out |= {"homophily"} if facts["level"] == "graph" else set()
    labels = LABELS | {"labelled": f"labelled {facts['level']}s"}
    rows = [
        [labels.get(key, key), _cell(value), *([_cell(paper.get(key, ""))] if paper else [])]
        for key, value in vars(counted).items()
        if key not in left_out
    ]
    sizes, blank = facts["graph_sizes"], [""] if paper else []
    if sizes:
        text = f"{sizes['mean']:.1f} ({sizes['min']:,} to {sizes['max']:,})"
        rows.append(["nodes of a graph", text, *blank])
    if facts["degree_features"]:
        rows.append(["features are", "degrees", *blank])
    if facts["target"]:
        rows += [[TARGET[key], f"{value:.6g}"] for key, value in facts["target"].items()]
    if facts["splits"]:
        rows.append(["given splits", _cell(facts["splits"]), *blank])
    headings = ["", "here", *(["paper"] if paper else [])]
    lines = [f"{key}: {facts[key]}" for key in ("licence", "source") if facts[key]]
    lines += [f"note: {note}" for note in facts["notes"]]
    shown = [Grid(facts["title"], headings, rows, left=[""]).for_terminal()]
    if facts["class_sizes"]:
        shown.append(_sizes_grid(facts, counted.labelled).for_terminal())
    return Group(*shown, *lines)


def _sizes_grid(facts: dict[str, Any], labelled: int) -> Grid:
    r"""The size of each class, the largest first; of many, the largest and the smallest."""
    sizes = sorted(facts["class_sizes"].items(), key=lambda item: -item[1])
    rows = [[name, f"{size:,}", f"{100 * size / max(1, labelled):.1f} %"] for name, size in sizes]
    if len(rows) > 2 * SHOWN_CLASSES + 1:
        others = f"… {len(rows) - 2 * SHOWN_CLASSES:,} more"
        rows[SHOWN_CLASSES:-SHOWN_CLASSES] = [[others, "", ""]]
    heading = "label" if facts["task"] == "multilabel" else "class"
    items = f"{facts['level']}s"
    return Grid(f"labelled {items}", [heading, items, "share"], rows, left=[heading])


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    return "–" if value is None else value if isinstance(value, str) else f"{value:,}"


def _located(problem: DataProblem, path: Path) -> str:
    r"""A problem in the form of compilers' messages, in which editors find the place."""
    folder = path if path.is_dir() else path.parent
    file = folder / problem.file if (folder / problem.file).exists() else Path(problem.file)
    place = f"{file}:{problem.line}" if problem.line is not None else str(file)
    return f"{place}: {problem.severity}: {problem.message}\n    {problem.advice}"


def _check_summary(dataset: Dataset | None, problems: list[DataProblem]) -> str:
    errors = sum(problem.severity == "error" for problem in problems)
    found = f"{count(errors, 'error')}, {count(len(problems) - errors, 'note')}"
    if dataset is None:
        return found
    from meanmax.data.dataset import target_text

    graphs = f"{count(dataset.num_graphs, 'graph')}, " if dataset.num_graphs > 1 else ""
    nodes, features = count(dataset.num_nodes, "node"), count(dataset.num_features, "feature")
    return f"{found}: {graphs}{nodes}, {features}, {target_text(dataset)}"
