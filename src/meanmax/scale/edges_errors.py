r"""What can go wrong with batches and with graphs on disk."""

from __future__ import annotations


class BatchingError(ValueError):
    r"""Batches, or layer-wise inference, that cannot be made as asked; the message says why."""


class FolderError(ValueError):
    r"""A graph folder that is missing something, damaged, or cannot be written."""
