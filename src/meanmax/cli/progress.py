r"""Progress of one training on stderr: a bar on a terminal, some lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from meanmax.train import History
from meanmax.train.loop import OnEpoch


@contextmanager
def epoch_bar(epochs: int) -> Iterator[OnEpoch]:
    r"""Yields what is to be called after each epoch.

    Args:
        epochs (int): The most epochs.
    """
    console = Console(stderr=True, highlight=False)
    with Progress(
        TextColumn("epoch"),
        MofNCompleteColumn(),
        BarColumn(20),
        TextColumn("{task.description}", markup=False),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bars:
        task = bars.add_task("", total=epochs)

        def on_epoch(epoch: int, history: History) -> None:
            if console.is_terminal:
                bars.update(task, completed=epoch + 1, description=told(history))
            elif (epoch + 1) % max(1, epochs // 10) == 0:
                console.print(f"epoch {epoch + 1}/{epochs}: {told(history)}", markup=False)

        yield on_epoch


def told(history: History) -> str:
    r"""The last epoch in a line.

    Example:
        >>> told(History([0.5], [0.7], [0.8125], {"layers.0.gamma": [[1.25]]}))
        'loss 0.500, validation 81.2 %, gamma 1.250'
    """
    found = [f"loss {history.train_loss[-1]:.3f}"]
    if history.val_score:
        found.append(f"validation {100 * history.val_score[-1]:.1f} %")
    found += learned_texts({name: values[-1] for name, values in history.learned.items()})
    return ", ".join(found)


def learned_texts(learned: Mapping[str, Sequence[float]]) -> list[str]:
    r"""Aggregators' parameters in words: one text for each kind, with a value for each layer, the
    mean where a layer has several.

    Example:
        >>> learned_texts({"layers.0.p": [1.5], "layers.1.p": [1.0, 3.0]})
        ['p 1.500 and 2.000 (mean of 2)']
    """
    kinds: dict[str, list[str]] = {}
    for name, values in learned.items():
        mean = sum(values) / len(values)
        several = f" (mean of {len(values)})" if len(values) > 1 else ""
        kinds.setdefault(name.rpartition(".")[2], []).append(f"{mean:.3f}{several}")
    return [f"{kind} {' and '.join(texts)}" for kind, texts in kinds.items()]
