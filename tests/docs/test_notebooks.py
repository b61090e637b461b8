"""The notebooks keep small outputs; ``make test-docs`` runs them."""

import importlib.util
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"
NOTEBOOKS = [pytest.param(path, id=path.stem) for path in sorted(FOLDER.glob("*.ipynb"))]


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_outputs_are_stored_and_small(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    assert outputs, "run `python docs/notebooks/run.py --write`"
    assert path.stat().st_size < 40_000
    for output in outputs:
        assert output["output_type"] in ("stream", "execute_result"), "an error, or a picture"
        assert output.get("name") != "stderr"
        assert "\x1b" not in json.dumps(output, ensure_ascii=False)


def test_what_is_printed_in_pieces_is_merged():
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    spec = importlib.util.spec_from_file_location("run", FOLDER / "run.py")
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)

    def stream(name, text):
        return nbformat.v4.new_output("stream", name=name, text=text)

    result = nbformat.v4.new_output("execute_result", {"text/plain": "7"})
    outputs = [
        stream("stdout", "a \x1b["),
        stream("stderr", "50 %"),
        stream("stdout", "1mb\n"),
        result,
        stream("stdout", "c\n"),
    ]
    kept = run.merged(outputs)
    assert [one.get("text") for one in kept] == ["a b\n", None, "c\n"]
