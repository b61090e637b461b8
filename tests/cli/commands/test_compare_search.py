"""``meanmax compare`` with settings that are searched."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.cli.progress import SearchBar
from meanmax.data import development_pool, load, make_split
from meanmax.names import REFERENCES
from meanmax.study.report.evidence import Evidence
from meanmax.study.report.page import content
from meanmax.study.runs import execute as execute_module
from meanmax.study.runs import search as search_module
from meanmax.study.settings import search as settings_search
from meanmax.study.settings.settings import settings_for
from meanmax.study.store.store import Store
from meanmax.train import loop as loop_module

NODES = 60
QUICK = ["--splits", "2", "--jobs", "1", "--budget", "3", "--set", "epochs=6", "--aggr", "lp"]
SHARES = (1.0, 2 / 3, 1 / 3)


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch):
    monkeypatch.setitem(settings_search.LIMITS, "node", (2, 4, 1000))
    monkeypatch.setattr(settings_search, "SHARES", SHARES)


def run(*words):
    return CliRunner().invoke(main, ["compare", *map(str, words)])


def done(*words):
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result


def one_line(result):
    text = result.stderr.strip().rpartition("Error: ")[2]
    return " ".join(text.split())


def labels(kind="classes"):
    draw = np.random.default_rng(0)
    classes = np.arange(NODES) % 3
    return classes if kind == "classes" else np.round(classes + draw.normal(size=NODES), 3) + 0.0005


def graph(folder, y, **masks):
    """A file with a graph whose features and edges follow the classes a little."""
    draw = np.random.default_rng(1)
    x = draw.normal(size=(NODES, 5)) + 0.8 * np.eye(5)[np.arange(NODES) % 3]
    edges = draw.integers(0, NODES, (2, 300))
    edges = edges[:, (edges[0] % 3 == edges[1] % 3) | (draw.random(300) < 0.3)]
    edges = np.unique(np.sort(edges[:, edges[0] != edges[1]], axis=0), axis=1)
    folder.mkdir(exist_ok=True)
    path = folder / "graph.npz"
    np.savez(path, edges=edges.T, features=x.astype(np.float32), labels=y, **masks)
    return path


def masks(count=2):
    order = [np.random.default_rng(9 + number).permutation(NODES) for number in range(count)]
    found = {name: np.zeros((NODES, count), bool) for name in ("train", "val", "test")}
    for column, nodes in enumerate(order):
        for name, part in zip(found, np.split(nodes, [24, 42]), strict=True):
            found[name][part, column] = True
    return {f"{name}_mask": mask for name, mask in found.items()}


def facts(store):
    """What a search may depend on, without the keys, which hold the hash of all labels."""
    found = []
    for row in Store(store).rows():
        metrics = {
            name: v
            for name, v in row.metrics.items()
            if not name.startswith(("test", "all", "kmeans"))
        }
        place = (row.backbone, row.aggr, row.split_seed)
        own = (row.settings, row.epochs, row.best_epoch, row.learned, metrics)
        found.append(json.dumps([place, own], sort_keys=True))
    return sorted(found)


def of_the_last_round(trials, backbone, seed):
    return [
        row
        for row in trials
        if (row.backbone, row.split_seed, row.settings["epochs"]) == (backbone, seed, 6)
    ]


def test_every_method_is_searched_and_compared_with_references(tmp_path):
    result = done("--data", "karate", "--out", tmp_path, *QUICK)
    trials = Store(tmp_path / "search").rows()
    assert all(row.metrics.keys() == {"val_score", "val_loss"} for row in trials)
    for seed in range(2):
        counts = Counter(
            (row.backbone, row.aggr, row.settings["epochs"])
            for row in trials
            if row.split_seed == seed
        )
        for method in (("gcn", "none"), ("gcn", "lp"), ("mlp", "none")):
            assert counts[*method, 2] == 3, method
            assert counts[*method, 4] in (2, 3), "the best two, and the deep one if it is not one"
        assert counts["gcn", "none", 6] == counts["mlp", "none", 6] == 1
        # The best of its own, and the baseline's choice if it is another. Frozen at the linear end
        # this is the baseline, which has been run.
        assert counts["gcn", "lp", 6] in (1, 2)
        last = of_the_last_round(trials, "gcn", seed)
        (base,) = [r.settings for r in last if r.aggr == "none"]
        shared = settings_for("default", "gcn", "lp", "karate", base)
        assert shared in [r.settings for r in last if r.aggr == "lp"]
    assert not any(row.settings.get("learn") is False for row in trials)
    rows = Store(tmp_path).rows()
    names = Counter((row.backbone, row.aggr) for row in rows)
    others = [("mlp", "none"), *((name, "none") for name in REFERENCES)]
    assert names == {("gcn", "none"): 2, ("gcn", "lp"): 2} | dict.fromkeys(others, 2)
    assert {row.settings_name for row in rows} == {"auto"}
    for row in rows:
        if row.backbone in REFERENCES:
            continue
        last = of_the_last_round(trials, row.backbone, row.split_seed)
        last = [r for r in last if r.aggr in (row.aggr, "none")]  # lp may be frozen to be this
        best = max(r.metrics["val_score"] for r in last)
        assert row.metrics["val_score"] == pytest.approx(best)
        if row.settings.get("learn") is not False:
            (own,) = [r for r in last if (r.aggr, r.settings) == (row.aggr, row.settings)]
            assert own.metrics["val_score"] == best
            assert (row.best_epoch, row.learned) == (own.best_epoch, own.learned)
    classes, announced, *_ = result.stderr.splitlines()
    assert classes.startswith("Classes community 0: 13 (38.2 %), ")
    assert announced.startswith("Search: 3 trials of each of 3 methods on 2 splits, at most ")
    for text in ("majority class", "label propagation", "MLP", "chosen on validation nodes by"):
        assert text in result.stdout
    stem = "compare-karate-gcn-auto__epochs=6"
    table = json.loads((tmp_path / f"{stem}.json").read_text())
    assert [line["aggr"] for line in table["lines"]] == ["none", "lp"]
    assert [line["aggr"] for line in table["references"]][0] == "majority class"
    assert 'class="reference"' in (tmp_path / "report.html").read_text("utf-8")


def test_nothing_is_run_twice_also_after_interruptions(tmp_path, monkeypatch):
    whole = done("--data", "karate", "--out", tmp_path / "whole", *QUICK)
    stores = [tmp_path / "whole" / part / "runs.sqlite" for part in ("", "search")]
    before = [store.read_bytes() for store in stores]
    again = done("--data", "karate", "--out", tmp_path / "whole", *QUICK)
    (announced,) = [line for line in again.stderr.splitlines() if line.startswith("Search: ")]
    assert announced.endswith("epochs; the first round is stored.")
    assert again.stdout == whole.stdout and [store.read_bytes() for store in stores] == before
    executed = []
    real = execute_module.execute

    def counted(task, *args):
        executed.append(task.spec.key)
        return real(task, *args)

    monkeypatch.setattr(execute_module, "execute", counted)
    words = ["--data", "karate", "--out", tmp_path / "cut", *QUICK]
    for stop in (4, 20):  # in the first round of 18, and in the second one
        with monkeypatch.context() as patch:
            stage, left = SearchBar.stage, [stop]

            def dying(bar, tasks, stored, stage=stage, left=left):
                on_row = stage(bar, tasks, stored)

                def count(row):
                    on_row(row)
                    left[0] -= 1
                    if left[0] == 0:
                        raise KeyboardInterrupt

                return count

            patch.setattr(SearchBar, "stage", dying)
            result = run(*words)
        assert result.exit_code == 1 and "the same command resumes" in result.stderr
    assert len(Store(tmp_path / "cut" / "search").rows()) == 24
    assert not (tmp_path / "cut" / "runs.sqlite").exists()
    resumed = done(*words)
    assert len(executed) == len(set(executed)) + len(_twice(tmp_path / "cut")), (
        "nothing is repeated"
    )
    assert without_times(resumed.stdout.replace("cut", "whole")) == without_times(whole.stdout)
    for part in ("", "search"):
        assert facts(tmp_path / "cut" / part) == facts(tmp_path / "whole" / part)


def test_trials_continue_from_round_to_round_with_the_outcome_of_a_fresh_start(
    tmp_path, monkeypatch
):
    epochs, real = [], loop_module._Run.epoch
    monkeypatch.setattr(loop_module._Run, "epoch", lambda run: (epochs.append(1), real(run)))
    words = ["--data", "karate", "--no-references", *QUICK]
    done("--out", tmp_path / "kept", *words)
    made, longest = len(epochs), {}
    for row in [*Store(tmp_path / "kept" / "search").rows(), *Store(tmp_path / "kept").rows()]:
        one = json.dumps([row.aggr, row.split_seed, {**row.settings, "epochs": None}])
        longest[one] = max(longest.get(one, 0), row.epochs)
    timed = 2 * (1 + 3)  # epochs of each method, for the expected time
    assert made == sum(longest.values()) + timed
    assert not (tmp_path / "kept" / "search" / "trained").exists()
    monkeypatch.setattr(search_module, "KEPT_BYTES", 0)
    done("--out", tmp_path / "fresh", *words)
    assert len(epochs) > 2 * made, "every round starts over"
    for part in ("", "search"):
        assert facts(tmp_path / "kept" / part) == facts(tmp_path / "fresh" / part)


def without_times(text):
    """The lines of a table without the last column and without frames, which are as wide as it."""
    lines = [line for line in text.splitlines() if not line.startswith(("┏", "┡", "└"))]
    return [re.sub(r" +(s ┃|[\d.]+\*? │)$", "", line) for line in lines]


def _twice(folder):
    """The runs that are made briefly in the search, and then again to be reported."""
    found = [{row.key for row in Store(store).rows()} for store in (folder, folder / "search")]
    return found[0] & found[1]


def garbage(y, nodes):
    """Other labels for these nodes."""
    made = y.copy()
    if y.dtype.kind == "f":
        made[nodes] = np.random.default_rng(5).normal(1000, 50, len(nodes)) + 0.0005
    else:
        made[nodes] = (made[nodes] + 1 + np.arange(len(nodes)) % 2) % 3
    return made


def check_that_test_labels_have_no_say(tmp_path, one, other, *words):
    for name, path in (("one", one), ("other", other)):
        done("--data", path, "--out", tmp_path / f"runs-{name}", *words, "--budget", "2")
    for part in ("search", ""):
        stores = [tmp_path / f"runs-{name}" / part for name in ("one", "other")]
        hashes = [{row.data_hash for row in Store(store).rows()} for store in stores]
        assert hashes[0] != hashes[1], "the labels differ"
        assert facts(stores[0]) == facts(stores[1])
        assert len(facts(stores[0])) >= 6
    tests = [
        [row.metrics["test_score"] for row in Store(tmp_path / f"runs-{name}").rows()]
        for name in ("one", "other")
    ]
    assert tests[0] != tests[1]


def split_of(path, scheme, seed, pool=None):
    return make_split(load(str(path)), scheme, seed, pool=pool)


# With one split: the test nodes of one split train and validate in others.
def test_test_labels_have_no_say_in_random_splits(tmp_path):
    one = graph(tmp_path / "one", labels())
    test = split_of(one, "random", 0).test.numpy()
    other = graph(tmp_path / "other", garbage(labels(), test))
    words = [*QUICK, "--split", "random", "--splits", "1", "--search", "each"]
    check_that_test_labels_have_no_say(tmp_path, one, other, *words)


def test_test_labels_have_no_say_in_given_splits(tmp_path):
    given = masks()
    given["train_mask"] &= ~given["test_mask"].any(axis=1, keepdims=True)
    given["val_mask"] &= ~given["test_mask"].any(axis=1, keepdims=True)
    one = graph(tmp_path / "one", labels(), **given)
    test = np.flatnonzero(given["test_mask"].any(axis=1))
    other = graph(tmp_path / "other", garbage(labels(), test), **given)
    check_that_test_labels_have_no_say(tmp_path, one, other, *QUICK)
    rows = Store(tmp_path / "runs-one").rows()
    assert {row.split for row in rows} == {"given"} and len({row.split_hash for row in rows}) == 2


def test_test_labels_have_no_say_in_splits_of_a_file(tmp_path):
    one = graph(tmp_path / "one", labels())
    parts = masks(1)
    file = tmp_path / "split.csv"
    words = {name: parts[f"{name}_mask"][:, 0] for name in ("train", "val", "test")}
    lines = [f"{i},{next(w for w, m in words.items() if m[i])}" for i in range(NODES)]
    file.write_text("id,split\n" + "\n".join(lines) + "\n")
    other = graph(tmp_path / "other", garbage(labels(), np.flatnonzero(words["test"])))
    check_that_test_labels_have_no_say(tmp_path, one, other, *QUICK, "--split", f"file:{file}")


def test_the_half_that_tests_has_no_say_in_one_search(tmp_path, monkeypatch):
    one = graph(tmp_path / "one", labels())
    pool = development_pool(load(str(one)), "random")
    # The pool is drawn by class. Here it stays as it was, whatever labels the other half has.
    monkeypatch.setattr("meanmax.data.development_pool", lambda *_: pool)
    test = np.setdiff1d(np.arange(NODES), pool.numpy())
    assert set(split_of(one, "random", 1, pool).test.tolist()) == set(test.tolist())
    other = graph(tmp_path / "other", garbage(labels(), test))
    words = [*QUICK, "--split", "random", "--search", "shared", "--splits", "4"]
    check_that_test_labels_have_no_say(tmp_path, one, other, *words)
    rows = Store(tmp_path / "runs-one").rows()
    assert {row.split for row in rows} == {"random, pool"}
    assert {row.split_seed for row in rows} == {0, 1, 2, 3}
    trials = Store(tmp_path / "runs-one" / "search").rows()
    assert {row.split_seed for row in trials} == {0, 1, 2}, "three searches for all splits"
    lp = {row.split_seed: row.settings for row in rows if (row.backbone, row.aggr) == ("gcn", "lp")}
    assert len(lp) == 4 and lp[3] == lp[0]


def test_numbers_are_searched_by_their_error(tmp_path):
    one = graph(tmp_path / "one", labels("numbers"))
    pool = development_pool(load(str(one)), "random")  # it does not depend on numbers
    test = split_of(one, "random", 0, pool).test.numpy()
    other = graph(tmp_path / "other", garbage(labels("numbers"), test))
    for name, path in (("one", one), ("other", other)):
        # As a setting it is the metric of the whole comparison, as with --metric.
        result = done("--data", path, "--out", tmp_path / name, *QUICK, "--set", "metric=mae")
        assert "MAE" in result.stdout and "MAE %" not in result.stdout
    for part in ("", "search"):
        assert facts(tmp_path / "one" / part) == facts(tmp_path / "other" / part)
    last = [row for row in Store(tmp_path / "one" / "search").rows() if row.settings["epochs"] == 6]
    for row in Store(tmp_path / "one").rows():
        own = [
            r.metrics["val_score"]
            for r in last
            if (r.backbone, r.split_seed) == (row.backbone, row.split_seed)
            and r.aggr in (row.aggr, "none")
        ]
        assert row.split == "random, pool"
        assert not own or row.metrics["val_mae"] == pytest.approx(min(own))


def test_the_metric_of_two_unequal_classes_is_the_auc(tmp_path):
    y = (np.arange(NODES) % 5 == 0).astype(np.int64)
    result = done("--data", graph(tmp_path / "g", y), "--out", tmp_path / "runs", *QUICK)
    assert "ROC AUC %" in result.stdout
    rows = Store(tmp_path / "runs").rows()
    assert {row.settings["metric"] for row in rows} == {"roc_auc"}
    assert all(row.metrics["test_score"] == row.metrics["test_roc_auc"] for row in rows)
    assert (tmp_path / "runs" / "compare-graph-gcn-auto__metric=roc_auc__epochs=6.json").exists()


@pytest.mark.parametrize("extent", ["shared", "each"])
def test_the_chosen_settings_can_be_saved_and_used(tmp_path, extent):
    file = tmp_path / "mine.toml"
    words = ["--data", "karate", "--jobs", "1", "--splits", "1", "--aggr", "lp,softmax"]
    search = ["--budget", "3", "--set", "epochs=6", "--metric", "macro_f1", "--search", extent]
    done(*words, *search, "--out", tmp_path / "auto", "--save-settings", file)
    done(*words, "--settings", file, "--no-references", "--out", tmp_path / "again")
    chosen = {(r.backbone, r.aggr): r for r in Store(tmp_path / "auto").rows()}
    again = {(r.backbone, r.aggr): r for r in Store(tmp_path / "again").rows()}
    assert again.keys() == {("gcn", "none"), ("gcn", "lp"), ("gcn", "softmax")}
    for method, row in again.items():
        assert row.settings == chosen[method].settings
        assert row.metrics == chosen[method].metrics and row.learned == chosen[method].learned
        assert settings_for(str(file), *method, "karate") == row.settings
    assert {row.split_hash for row in again.values()} == {chosen["gcn", "none"].split_hash}
    how = tomllib.loads(file.read_text())["search"]
    assert (how["budget"], how["metric"], how["pool"]) == (3, "macro_f1", extent == "shared")
    assert how["splits"] == again["gcn", "lp"].split
    mlp = chosen["mlp", "none"].settings
    assert settings_for(str(file), "mlp", "none", "karate") == mlp
    (path,) = (tmp_path / "again").glob("compare-*.json")
    assert json.loads(path.read_text())["metric"] == "macro-F1"


def test_without_references(tmp_path):
    result = done("--data", "karate", "--out", tmp_path, *QUICK, "--no-references", "--splits", "1")
    assert {row.backbone for row in Store(tmp_path).rows()} == {"gcn"}
    assert {row.backbone for row in Store(tmp_path / "search").rows()} == {"gcn"}
    assert "majority" not in result.stdout and "still improving" in result.stdout


def test_the_page_tells_how_to_repeat_the_comparison(tmp_path):
    space = tmp_path / "space.toml"
    space.write_text("[default]\nlr = [0.01, 0.1]\nhidden = [4, 8]\n")
    words = [*QUICK[:-4], "--aggr", "lp", "--space", space, "--no-references"]
    changed = ["--set", "epochs=6", "--set", "dropout=0.0", "--search", "each"]
    words = ["--data", graph(tmp_path / "g", labels()), *words, *changed, "--metric", "macro_f1"]
    done(*words, "--out", tmp_path / "runs", "--directed")
    (section,) = content(Evidence.of(tmp_path / "runs"))["sections"]
    said = section["command"].replace("FOLDER-OF/space.toml", str(space))
    said = shlex.split(said.replace("FOLDER-OF/graph", str(tmp_path / "g" / "graph.npz")))
    assert "--directed" in said and "--no-references" in said
    done(*said[2:], "--jobs", "1", "--out", tmp_path / "again")
    keys = [{row.key for row in Store(tmp_path / name).rows()} for name in ("runs", "again")]
    assert keys[0] == keys[1] and len(keys[0]) == 4
    trials = [Store(tmp_path / name / "search").rows() for name in ("runs", "again")]
    assert {row.key for row in trials[0]} == {row.key for row in trials[1]}


def test_training_that_is_cut_short_is_not_conclusive(tmp_path):
    # With a tiny learning rate, the last of six epochs is the best one.
    words = [*QUICK, "--set", "lr=1e-4", "--set", "dropout=0.0", "--metric", "roc_auc"]
    y = (np.arange(NODES) % 3 == 0).astype(np.int64)
    path = graph(tmp_path / "g", y)
    result = done("--data", path, "--out", tmp_path / "runs", *words, "--json")
    found = json.loads(result.stdout)
    rows = [row for row in Store(tmp_path / "runs").rows() if row.backbone == "gcn"]
    late = Counter(row.aggr for row in rows if row.epochs == 6 and row.best_epoch == 5)
    named = any("still improving at the last epoch" in doubt for doubt in found["doubts"])
    assert named == (max(late.values(), default=0) > 1)
    assert found["verdict"].startswith("Not conclusive") == bool(found["doubts"])


SPACE = "[default]\nlr = [0.01, 0.1]\n"


@pytest.mark.parametrize(
    ("words", "space", "message"),
    [
        (["--metric", "f1"], None, "Invalid value for '--metric': 'f1' is not one of"),
        (["--metric", "r2"], None, "'metric' must be one of 'accuracy', 'balanced_accuracy'"),
        (["--metric", "roc_auc", "--set", "metric=accuracy"], None, "--metric roc_auc contradicts"),
        (["--budget", "0"], None, "Invalid value for '--budget'"),
        (["--budget", "3"], SPACE, "the space has 2 different settings of the baseline"),
        ([], "[default]\nlearning_rate = [0.1]\n", "there is no setting 'learning_rate'"),
        ([], "[default]\nlr = 0.1\n", "must list the values of 'lr'"),
        ([], "[default]\nlr = ['fast', 0.1]\n", "'lr' must be of type float"),
        (["--budget", "2"], "[default]\nnorm = ['no', 'off']\n", "'norm' must be one of"),
        (["--space", "missing.toml"], None, "the space 'missing.toml' cannot be read"),
        (
            ["--settings", "default", "--budget", "3"],
            None,
            "--budget only applies to --settings auto",
        ),
        (["--settings", "default", "--search", "shared"], None, "--search only applies to"),
        (["--settings", "default", "--save-settings", "a.toml"], None, "--save-settings only"),
        (["--save-settings", "mine.txt"], None, "the name of --save-settings must end with .toml"),
        (["--settings", "automatic"], None, "'settings' must be one of published, default"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(tmp_path, monkeypatch, words, space, message):
    monkeypatch.chdir(tmp_path)
    if space is not None:
        (tmp_path / "space.toml").write_text(space)
        words = [*words, "--space", tmp_path / "space.toml"]
    result = run("--data", "karate", "--out", "runs", "--jobs", "1", *words)
    assert result.exit_code != 0
    assert message in one_line(result), result.stderr
    assert "Traceback" not in result.stderr and "Search:" not in result.stderr
    assert not (tmp_path / "runs").exists()


def test_a_metric_that_validation_nodes_do_not_define_is_refused(tmp_path):
    y = (np.arange(NODES) % 2).astype(np.int64)
    parts = np.where(np.arange(NODES) < 30, 0, 2)
    parts[(np.arange(NODES) >= 40) & (y == 0)] = 1  # validation nodes of one class
    given = {
        f"{name}_mask": parts == number for number, name in enumerate(("train", "val", "test"))
    }
    path = graph(tmp_path / "g", y, **given)
    result = run("--data", path, "--out", tmp_path / "runs", *QUICK, "--metric", "roc_auc")
    assert result.exit_code == 1
    assert "ROC AUC is not defined for the validation nodes" in one_line(result)
    assert not (tmp_path / "runs").exists()


def test_one_search_needs_splits_that_can_be_drawn(tmp_path):
    path = graph(tmp_path / "g", labels(), **masks())
    result = run("--data", path, "--out", tmp_path / "runs", *QUICK, "--search", "shared")
    assert result.exit_code == 1
    assert "'scheme' must be one of citation, amazon, balanced, random" in one_line(result)
    assert one_line(result).endswith("(got 'given'); or give --search each")
    assert not (tmp_path / "runs").exists()


def test_a_baseline_without_a_successful_trial_is_an_error(tmp_path):
    words = [*QUICK, "--set", "lr=1e30", "--set", "epochs=30"]
    result = run("--data", "karate", "--out", tmp_path, *words)
    assert result.exit_code == 1
    assert "no trial of gcn+none, gcn+lp, mlp+none succeeded" in one_line(result)


@pytest.mark.parametrize("seeds", [{0}, {0, 1}])
def test_a_method_whose_trials_fail_does_not_stop_the_others(tmp_path, monkeypatch, seeds):
    real = execute_module._result

    def broken(task, *args, **options):
        if task.spec.aggr == "lp" and task.spec.split_seed in seeds:
            raise MemoryError("too large")
        return real(task, *args, **options)

    monkeypatch.setattr(execute_module, "_result", broken)
    words = [*QUICK, "--aggr", "lp,softmax", "--no-references"]
    result = done("--data", "karate", "--out", tmp_path, *words)
    count = len(seeds)
    assert f"No trial of gcn+lp succeeded in {count} of 2 searches" in result.stderr
    rows = Store(tmp_path).rows()
    failed = [row for row in rows if row.status == "failed"]
    assert {(row.aggr, row.split_seed) for row in failed} == {("lp", seed) for seed in seeds}
    assert {row.settings["start"] for row in failed} == {1.05}, "the default"
    assert Counter(row.aggr for row in rows if row.status == "ok") == {
        name: n for name, n in {"none": 2, "lp": 2 - count, "softmax": 2}.items() if n
    }
    assert f"{2 - count} ({count} failed)" in result.stdout
    assert "lp: failed: MemoryError: too large" in result.stdout
    assert "gcn+lp" in result.stdout.partition("chosen on")[2]


def test_references_stand_beside_given_settings_too(tmp_path):
    words = ["--data", "karate", "--settings", "default", "--set", "epochs=2", "--splits", "1"]
    words += ["--aggr", "none", "--out", tmp_path, "--json"]
    shown = [
        [line["aggr"] for line in json.loads(done(*words, *more).stdout)["references"]]
        for more in (["--no-references"], [])
    ]
    assert shown == [[], ["majority class", "logistic regression", "label propagation"]]
    assert "Grey: references without a graph network." in (tmp_path / "report.html").read_text()
