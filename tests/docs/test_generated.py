"""The tables of README.md and the site are those of the stored results."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("generated", ROOT / "docs" / "generated.py")
generated = importlib.util.module_from_spec(spec)
spec.loader.exec_module(generated)

pytestmark = pytest.mark.skipif(not generated.ROWS.is_file(), reason="an sdist has no results")


@pytest.mark.parametrize("page", generated.PAGES)
def test_tables_are_those_of_the_stored_results(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text == generated.filled(text), "run `make tables`"


def test_a_changed_table_is_seen():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    name = generated.compared()[0].heading
    changed = text.replace(f"| {name}", "| another one")
    assert changed != text
    assert generated.filled(changed) == text
