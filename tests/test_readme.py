"""The README's first block of Python runs as it stands."""

import re
from pathlib import Path

import torch

README = Path(__file__).parents[1] / "README.md"


def test_the_first_code_block_runs():
    block = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    exec(block[1], names)  # the project's own text
    assert names["out"].shape == (4, 64)
    assert bool(torch.isfinite(names["out"]).all())


def test_the_code_of_whole_graphs_runs():
    text = README.with_name("docs").joinpath("graph-classification.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 3
    names = {}
    for block in blocks:
        exec(block, names)  # the project's own text
    assert 0 <= names["model"].score(names["digits"]) <= 1
