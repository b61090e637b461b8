r"""A word on stderr while a page is made, which takes minutes with many embeddings."""

from __future__ import annotations

from rich.console import Console
from rich.status import Status


def making_page(tsne: bool) -> Status:
    r"""What is shown until the page is there, on a terminal.

    Args:
        tsne (bool): Whether embeddings are placed in the plane for it.
    """
    what = "making the page"
    if tsne:
        what += ", with embeddings placed in the plane: up to a minute for each"
    return Console(stderr=True).status(what)
