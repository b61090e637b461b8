from __future__ import annotations

import pytest

from meanmax.train.schedule import EarlyStopping

EPOCHS = [(1.0, 0.5), (0.9, 0.5), (0.95, 0.6), (0.8, 0.55), (0.8, 0.6), (0.7, 0.6)]  # loss, score


@pytest.mark.parametrize(
    ("select", "kept"),
    [
        ("loss", [0, 1, 3, 5]),
        ("score", [0, 1, 2, 4, 5]),
        ("both", [0, 1, 5]),
    ],
)
def test_which_epochs_are_kept(select, kept):
    selection = EarlyStopping(select, patience=10)
    assert [i for i, epoch in enumerate(EPOCHS) if selection.keeps(*epoch)] == kept


def test_patience_ends_the_search_and_starts_anew_with_a_better_epoch():
    selection = EarlyStopping("loss", patience=2)
    seen = []
    for loss in (1.0, 1.1, 0.9, 1.0, 0.9, 0.5):
        selection.keeps(loss, 0.0)
        seen.append(selection.exhausted)
    assert seen == [False, False, False, False, True, False]


def test_both_waits_for_either():
    selection = EarlyStopping("both", patience=2)
    for loss, score in ((1.0, 0.5), (0.9, 0.4), (1.2, 0.6)):
        selection.keeps(loss, score)
    assert selection.waited == 0
