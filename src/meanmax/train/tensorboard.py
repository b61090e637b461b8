r"""Training curves for TensorBoard."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self, final

from meanmax.train.schedule import History

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class TensorBoardError(RuntimeError):
    r"""TensorBoard is not installed."""


@final
class TensorBoard:
    r"""Writes every epoch for TensorBoard: :obj:`loss/train`, :obj:`loss/val`, :obj:`score/val`,
    and :obj:`learned/layers.0.gamma` and so on, with a number appended if a layer has several
    values.

    .. code-block:: python

        with TensorBoard("logs/first") as board:
            NodeClassifier().fit(graph, x, y, train_mask, val_mask, on_epoch=board)

    After an interruption, epochs that are repeated replace those written before.

    Args:
        folder (str or PathLike): The folder of this run, created if it does not exist.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            import torch.utils.tensorboard  # noqa: F401
        except ImportError as error:
            raise TensorBoardError(
                "TensorBoard is not installed: pip install 'meanmax[tensorboard]'"
            ) from error
        self.folder = os.fspath(folder)
        self._writer: SummaryWriter | None = None

    def __call__(self, epoch: int, history: History) -> None:
        r"""Writes one epoch; see :func:`meanmax.train.train`."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            os.makedirs(self.folder, exist_ok=True)
            # An interrupted run may have written epochs from here on.
            self._writer = SummaryWriter(self.folder, purge_step=epoch or None)
        for name, value in _values(history).items():
            self._writer.add_scalar(name, value, epoch)

    def close(self) -> None:
        r"""Writes the remaining values."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _values(history: History) -> dict[str, float]:
    found = {"loss/train": history.train_loss[-1]}
    if history.val_loss:
        found |= {"loss/val": history.val_loss[-1], "score/val": history.val_score[-1]}
    for name, (*_, last) in history.learned.items():
        for number, value in enumerate(last):
            found[f"learned/{name}" + (f"/{number}" if len(last) > 1 else "")] = value
    return found
