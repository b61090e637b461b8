r"""The command :obj:`meanmax calibrate`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from meanmax.cli import options
from meanmax.study.calibration import Case, counts, run_cases
from meanmax.study.runs.run_missing import Workers

GRAPH = "sbm:nodes=400,edges=1600,seed={seed}"


@click.command(hidden=True)
@click.option("--comparisons", type=options.POSITIVE, default=200, help="How many to make.")
@click.option("--data", default=GRAPH, help="A generated graph; {seed} is the comparison's number.")
@options.backbone
@click.option("--budget", type=options.POSITIVE, default=6, help="Trials of each search.")
@options.splits
@click.option("--epochs", type=options.POSITIVE, default=150, help="Epochs of a run at most.")
@click.option(
    "--searches",
    type=options.NOT_NEGATIVE,
    default=3,
    help="Searches that serve all splits; 0 for one in each.",
)
@click.option(
    "--planted",
    type=click.FloatRange(0, 1),
    default=0.02,
    help="The share of correct answers that are counted as wrong, as a difference to be found.",
)
@click.option("--jobs", type=options.POSITIVE, help="Comparisons at once. [default: processors]")
@options.out(options.PATH, "File of the outcomes, which is resumed.", default="calibration.jsonl")
def calibrate(
    comparisons: int, planted: float, jobs: int | None, out: Path, **case: object
) -> None:
    r"""Compare the baseline with a copy of itself, and count how often they are told apart."""
    cases = [Case(number, **case) for number in range(comparisons)]  # type: ignore[arg-type]
    done = []
    with options.clear_errors(resumes=True):
        for outcome in run_cases(cases, out, Workers(jobs).jobs):
            done.append(outcome)
            if len(done) % 10 == 0:
                click.echo(f"[{len(done)}/{len(cases)}]", err=True)
    facts = {
        "comparisons": len(done),
        "told apart from a copy": counts(done),
        f"told apart after flipping {planted:.1%} of correct answers": counts(done, planted),
    }
    click.echo(json.dumps(facts, indent=1))
