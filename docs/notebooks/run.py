"""Runs the notebooks of this folder, as ``make test-docs`` does; a cell that fails is an error.

With ``--write`` the outputs are stored in the notebooks, without what differs from run to run.
"""

import argparse
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

HERE = Path(__file__).parent


COLOUR = re.compile(r"\x1b\[[\d;]*m")


def merged(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """What was printed in pieces, as one output without colours; standard error is left out."""
    kept: list[NotebookNode] = []
    for one in outputs:
        if one.output_type != "stream":
            kept.append(one)
        elif one.name == "stdout":
            if kept and kept[-1].output_type == "stream":
                kept[-1].text += one.text
            else:
                kept.append(NotebookNode(one))
    for one in kept:
        if one.output_type == "stream":
            one.text = COLOUR.sub("", one.text)
    return kept


def run(path: Path, write: bool) -> None:
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
        client.execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day
        outputs = cell.get("outputs", [])
        said = "".join(one.text for one in outputs if one.get("name") == "stderr")
        if "Warning" in said and "TqdmWarning" not in said:  # its bars need another package
            raise SystemExit(f"{path.name}: a cell warns:\n{said}")
        if "outputs" in cell:
            cell.outputs = merged(outputs)  # without progress bars
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec}
    if write:
        nbformat.write(notebook, path)
    print(f"{path.name}: {sum(cell.cell_type == 'code' for cell in notebook.cells)} cells ran")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="store the outputs")
    parser.add_argument("notebooks", nargs="*", type=Path, default=sorted(HERE.glob("*.ipynb")))
    arguments = parser.parse_args()
    for notebook in arguments.notebooks:
        run(notebook, arguments.write)
