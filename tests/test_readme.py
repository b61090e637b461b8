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
