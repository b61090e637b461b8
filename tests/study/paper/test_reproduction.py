import math

import pytest

from meanmax.study.paper.reproduction import ablation, variants
from meanmax.study.settings.settings import settings_for
from tests.study.rows import cora


def test_ablation_variants_change_what_they_say():
    listed = variants()
    assert {variant.aggr for variant in listed} == {"lp", "poly", "softmax"}
    settings = [
        tuple(settings_for("published", "gcn", v.aggr, "cora", v.overrides).items()) for v in listed
    ]
    assert len(set(settings)) == len(settings)
    for variant in listed:
        known = settings_for("published", "gcn", variant.aggr, "cora", variant.overrides)
        assert variant.overrides.items() <= known.items(), variant


def test_ablation_is_against_the_published_baseline():
    rows = cora("none", [80.0, 82.0]) + cora("lp", [81.0, 83.5])
    rows += cora("lp", [70.0, 71.0], overrides={"nonlinear": "all"}, tag="all")
    listed = [effect for effect in ablation(rows, ["cora"]).effects if effect.variant is not None]
    found = {(effect.variant.aggr, effect.variant.name): effect for effect in listed}
    assert found["lp", "as published"].difference == pytest.approx(1.25)
    assert found["lp", "in all layers"].difference == pytest.approx(-10.5)
    assert found["poly", "as published"].n == 0
    assert math.isnan(found["poly", "as published"].difference)
