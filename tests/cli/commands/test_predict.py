from __future__ import annotations

import csv

import numpy as np
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from sklearn.metrics import roc_auc_score

from meanmax import NodeClassifier
from meanmax.cli import main
from meanmax.data import load

QUICK = ("--set", "epochs=30", "--set", "hidden=8")


def invoke(*args):
    return CliRunner().invoke(main, list(map(str, args)))


def assert_message(result, *parts):
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    text = " ".join(result.stderr.split())
    assert all(part in text for part in parts), text


def rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_club(folder, *, labels=True, seed=0, several=False):
    """A graph of one's own with names for nodes and classes, one of each awkward."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    names = ['ann, "the first"', *(f"müller {i}" for i in range(1, 30))]
    kinds = ["reader", "writer; both"]
    lines = ["id\tf\tg\t" + ("label_old\tlabel_tall" if several else "label")]
    for node, name in enumerate(names):
        shown = f"{node % 2}\t{node // 15}" if several else kinds[node % 2]
        quoted = '"' + name.replace('"', '""') + '"'
        value = shown if labels and node % 7 else ("\t" if several else "")
        lines.append(f"{quoted}\t{node % 2 + rng.normal():.3f}\t{node // 15}\t{value}")
    (folder / "nodes.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    edges = [f"müller {i}\tmüller {j}" for i, j in rng.integers(1, 30, (40, 2))]
    (folder / "edges.tsv").write_text("source\ttarget\n" + "\n".join(edges) + "\n", "utf-8")
    return folder, names


@pytest.fixture(scope="module")
def club(tmp_path_factory):
    folder, names = write_club(tmp_path_factory.mktemp("data") / "club")
    model = folder.parent / "model.zip"
    result = invoke("train", "--data", folder, "--out", model, *QUICK)
    assert result.exit_code == 0, result.output
    return folder, names, model


def test_classes_by_name_for_every_node(club, tmp_path):
    folder, names, model = club
    out = tmp_path / "found.csv"
    result = invoke("predict", model, "--data", folder, "--out", out)
    assert result.exit_code == 0, result.output
    found = rows(out)
    assert list(found[0]) == ["id", "label", "probability"]
    assert [row["id"] for row in found] == names
    classifier, dataset = NodeClassifier.load(model), load(folder)
    chance = classifier.predict_proba(dataset.graph(), dataset.x)
    kinds = np.array(["reader", "writer; both"])
    assert [row["label"] for row in found] == kinds[chance.argmax(1)].tolist()
    shown = [float(row["probability"]) for row in found]
    np.testing.assert_allclose(shown, chance.max(1), rtol=1e-5)
    right = sum(row["label"] == kinds[node % 2] for node, row in enumerate(found) if node % 7)
    assert f"accuracy {100 * right / 25:.2f} % on 25 labelled nodes" in result.stdout
    assert "training nodes included" in result.stdout
    assert list(tmp_path.iterdir()) == [out]


def test_parquet_with_every_class(club, tmp_path):
    folder, names, model = club
    out = tmp_path / "found.parquet"
    result = invoke("predict", model, "--data", folder, "--out", out, "--all")
    assert result.exit_code == 0, result.output
    table = pyarrow.parquet.read_table(out)
    every = ["probability_reader", "probability_writer; both"]
    assert table.column_names == ["id", "label", "probability", *every]
    assert table["id"].to_pylist() == names
    assert str(table.schema.field("probability").type) == "float"
    chances = np.stack([table[name].to_numpy() for name in every], axis=1)
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(chances.max(1), table["probability"].to_numpy())


def test_another_graph_without_labels(club, tmp_path):
    other, _ = write_club(tmp_path / "other", labels=False, seed=1)
    result = invoke("predict", club[2], "--data", other, "--out", tmp_path / "found.csv")
    assert result.exit_code == 0, result.output
    assert result.stdout == f"30 nodes in {tmp_path / 'found.csv'}\n"


def test_another_graph_with_labels(club, tmp_path):
    other, _ = write_club(tmp_path / "other", seed=1)
    result = invoke("predict", club[2], "--data", other, "--out", tmp_path / "found.csv")
    assert "labelled nodes (not the data that it was trained on" in result.stdout
    text = (other / "nodes.tsv").read_text("utf-8")
    (other / "nodes.tsv").write_text(text.replace("reader", "x").replace("writer; both", "y"))
    args = ("predict", club[2], "--data", other, "--out", tmp_path / "found.csv", "--force")
    assert "no score: the labels of these data are not those" in invoke(*args).stdout


def test_classes_are_compared_by_name(club, tmp_path):
    folder, _, model = club
    other, _ = write_club(tmp_path / "other")
    text = (other / "nodes.tsv").read_text("utf-8")
    # Sorted before the others, it gives them other numbers.
    (other / "nodes.tsv").write_text(text.replace("\treader", "\ta new one", 1), "utf-8")
    for data, name in ((folder, "one.csv"), (other, "two.csv")):
        args = ("predict", model, "--data", data, "--out", tmp_path / name)
        assert invoke(*args).exit_code == 0
    assert rows(tmp_path / "one.csv") == rows(tmp_path / "two.csv")
    result = invoke("predict", model, "--data", other, "--out", tmp_path / "two.csv", "--force")
    found = rows(tmp_path / "two.csv")
    true = [row.split("\t")[-1] for row in (other / "nodes.tsv").read_text("utf-8").split("\n")]
    right = sum(row["label"] == label for row, label in zip(found, true[1:], strict=False))
    assert f"accuracy {100 * right / 25:.2f} %" in result.stdout


def test_several_labels(tmp_path):
    folder, names = write_club(tmp_path / "club", several=True)
    model, out = tmp_path / "model.zip", tmp_path / "found.csv"
    assert invoke("train", "--data", folder, "--out", model, *QUICK).exit_code == 0
    result = invoke("predict", model, "--data", folder, "--out", out)
    assert result.exit_code == 0, result.output
    found = rows(out)
    assert list(found[0]) == [
        "id", "label_old", "probability_old", "label_tall", "probability_tall",
    ]  # fmt: skip
    dataset = load(folder)
    classifier = NodeClassifier.load(model)
    for row, chance in zip(
        found, classifier.predict_proba(dataset.graph(), dataset.x), strict=True
    ):
        assert float(row["probability_tall"]) == pytest.approx(float(chance[1]), rel=1e-5)
        assert row["label_tall"] == str(int(chance[1] > 0.5))
    known = dataset.labelled
    score = classifier.score(dataset.graph(), dataset.x, dataset.y, known)
    assert f"micro-F1 {100 * score:.2f} % on 25 labelled nodes" in result.stdout


def test_numbered_nodes(tmp_path):
    model, out = tmp_path / "model.zip", tmp_path / "found.csv"
    args = ("--data", "karate", "--aggr", "pna", "--set", "epochs=3")
    assert invoke("train", *args, "--out", model).exit_code == 0
    assert invoke("predict", model, "--data", "karate", "--out", out).exit_code == 0
    assert [row["id"] for row in rows(out)] == [str(number) for number in range(34)]
    assert {row["label"] for row in rows(out)} <= {f"community {number}" for number in range(4)}


def test_other_features_are_refused(club, tmp_path):
    result = invoke("predict", club[2], "--data", "wine", "--out", tmp_path / "found.csv")
    assert_message(result, "does not fit 'wine'", "'x' has 13 features", "trained on 2")
    assert list(tmp_path.iterdir()) == []


def test_embeddings_of_one_graph_do_not_serve_another(club, tmp_path):
    folder, _, _ = club
    model, out = tmp_path / "cat.zip", tmp_path / "found.csv"
    args = ("--data", folder, "--backbone", "cat", "--set", "epochs=3")
    assert invoke("train", *args, "--out", model).exit_code == 0
    other, _ = write_club(tmp_path / "other", seed=1)
    result = invoke("predict", model, "--data", other, "--out", out)
    assert_message(result, "learned structural embeddings for one graph of 30 nodes")
    assert not out.exists()
    assert invoke("predict", model, "--data", folder, "--out", out).exit_code == 0


@pytest.mark.parametrize("damage", ["empty", "text", "half", "other"])
def test_damaged_and_unknown_models(club, tmp_path, damage):
    whole = club[2].read_bytes()
    path = tmp_path / "model.zip"
    content = {"empty": b"", "text": b"hello", "half": whole[: len(whole) // 2]}
    if damage == "other":
        with path.open("wb") as file:
            np.savez(file, a=np.eye(2))
    else:
        path.write_bytes(content[damage])
    result = invoke("predict", path, "--data", club[0], "--out", tmp_path / "found.csv")
    assert_message(result, "model.zip was not saved by meanmax, or is damaged")
    assert list(tmp_path.iterdir()) == [path]


def test_places_and_names_that_do_not_do(club, tmp_path):
    args = ("predict", club[2], "--data", club[0], "--out")
    assert_message(invoke(*args, tmp_path / "a.xlsx"), "must end with .csv or .parquet (got")
    assert_message(invoke(*args, tmp_path / "no" / "a.csv"), "there is no folder")
    (tmp_path / "a.csv").write_text("precious")
    assert_message(invoke(*args, tmp_path / "a.csv"), "exists: choose another --out", "--force")
    assert (tmp_path / "a.csv").read_text() == "precious"
    assert invoke(*args, tmp_path / "a.csv", "--force").exit_code == 0
    assert len(rows(tmp_path / "a.csv")) == 30
    missing = invoke("predict", tmp_path / "none.zip", *args[2:], tmp_path / "b.csv")
    assert_message(missing, "none.zip' does not exist")


def test_a_full_disk_leaves_nothing_half_written(club, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    (tmp_path / "a.parquet").write_text("precious")
    monkeypatch.setattr("pyarrow.parquet.write_table", full)
    args = ("predict", club[2], "--data", club[0], "--out", tmp_path / "a.parquet", "--force")
    assert_message(invoke(*args), "No space left on device")
    assert (tmp_path / "a.parquet").read_text() == "precious"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.parquet"]


KINDS = ("red", "green", "blue")


def write_colours(folder, kinds, *, label=True, head="id,colour,size"):
    """Colours decide the class; every fifth size is missing."""
    folder.mkdir()
    lines = [head + (",label" if label else "")]
    for node, kind in enumerate(kinds):
        name = f",{'warm' if kind == 'red' else 'cold'}" if label else ""
        lines.append(f"{node},{kind},{'' if node % 5 == 0 else node % 3}{name}")
    (folder / "nodes.csv").write_text("\n".join(lines) + "\n")
    edges = [f"{node},{(node + 1) % len(kinds)}" for node in range(len(kinds))]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    return folder


@pytest.mark.parametrize("kind", ["whole", "batches", "folder"])
def test_categories_and_imputed_values_are_those_of_the_training(kind, tmp_path):
    folder = write_colours(tmp_path / "colours", [KINDS[node % 3] for node in range(30)])
    model, out = tmp_path / "model.zip", tmp_path / "found.csv"
    asked = ("--one-hot", "colour", "--impute", "mean")
    source, more = folder, ()
    if kind == "folder":
        packed = tmp_path / "packed"
        result = invoke("data", "pack", folder, packed, *asked, "--parts", 2, "--cut", "blocks")
        assert result.exit_code == 0, result.output
        source, asked = packed, ()
    elif kind == "batches":
        more = ("--batches", "clusters", "--parts", 2, "--cut", "blocks")
    result = invoke("train", "--data", source, *asked, *more, "--out", model, *QUICK)
    assert result.exit_code == 0, result.output
    trained = load(folder, one_hot=["colour"], impute="mean")
    classifier = NodeClassifier.load(model)
    assert classifier.about_["encoding"] == trained.encoding
    assert classifier.about_["feature_names"] == list(trained.feature_names)

    # Without green, and with other sizes: on its own it would have other columns.
    other = write_colours(tmp_path / "other", ["red", "blue"] * 6, label=False)
    result = invoke("predict", model, "--data", other, "--out", out, "--all")
    assert result.exit_code == 0, result.output
    dataset = load(other, **trained.encoding)
    chance = classifier.predict_proba(dataset.graph(), dataset.x)
    assert dataset.x.shape == (12, 4)
    found = [float(row["probability_warm"]) for row in rows(out)]
    np.testing.assert_allclose(found, chance[:, classifier.class_names_.index("warm")], atol=1e-6)

    pink = write_colours(tmp_path / "pink", ["pink", "blue"] * 6, label=False)
    result = invoke("predict", model, "--data", pink, "--out", tmp_path / "none.csv")
    assert_message(result, "'colour' holds 'pink', none of 'blue', 'green', 'red'")


def test_other_columns_are_refused(club, tmp_path):
    folder, _, model = club
    other = tmp_path / "other"
    other.mkdir()
    (other / "edges.tsv").write_bytes((folder / "edges.tsv").read_bytes())
    text = (folder / "nodes.tsv").read_text(encoding="utf-8")
    for head, message in (
        ("id\tf\th\t", "it lacks 'g' and adds 'h'"),
        ("id\tg\tf\t", "another order"),
    ):
        (other / "nodes.tsv").write_text(text.replace("id\tf\tg\t", head), encoding="utf-8")
        result = invoke("predict", model, "--data", other, "--out", tmp_path / "none.csv")
        assert_message(result, "does not fit", "feature columns differ", message)


def test_a_rare_class_is_scored_by_its_rank(tmp_path):
    rng = np.random.default_rng(3)
    y = (np.arange(80) % 6 == 0).astype(np.int64)
    x = (rng.normal(size=(80, 3)) + y[:, None]).astype(np.float32)
    np.savez(tmp_path / "rare.npz", edges=rng.integers(0, 80, (120, 2)), features=x, labels=y)
    data, model = ("--data", tmp_path / "rare.npz"), tmp_path / "model.zip"
    told = invoke("train", *data, "--out", model, *QUICK)
    assert told.exit_code == 0, told.output
    assert "metric: ROC AUC, since one of two classes is rare" in told.stderr
    assert "ROC AUC on test nodes" in told.stdout
    result = invoke("predict", model, *data, "--out", tmp_path / "found.csv", "--all")
    assert result.exit_code == 0, result.output
    chance = [float(row["probability_1"]) for row in rows(tmp_path / "found.csv")]
    area = 100 * roc_auc_score(y, chance)
    assert f"ROC AUC {area:.2f} % on 80 labelled nodes" in result.stdout
    usual = invoke("train", *data, "--out", model, "--force", *QUICK, "--metric", "accuracy")
    assert "metric:" not in usual.stderr and "accuracy on test nodes" in usual.stdout


AWKWARD = ["=1+2", "+a", "-b", "@c", "-1.5", "'=d", "plain", "+7"]


def test_formulas_are_escaped_and_our_own_csv_is_read_back(tmp_path):
    folder, out = tmp_path / "awkward", tmp_path / "found.csv"
    folder.mkdir()
    cells = [f"{name},{node % 2},{'=x' if node % 2 else '-y'}" for node, name in enumerate(AWKWARD)]
    (folder / "nodes.csv").write_text("\n".join(["id,f,label", *cells]) + "\n")
    edges = [f"{a},{b}" for a, b in zip(AWKWARD, AWKWARD[1:], strict=False)]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    model = tmp_path / "model.zip"
    made = invoke("train", "--data", folder, "--split", "random", "--out", model, *QUICK)
    assert made.exit_code == 0, made.output

    ids = load(folder).node_ids.tolist()  # the apostrophe of '=d is read as ours
    result = invoke("predict", model, "--data", folder, "--out", out)
    assert result.exit_code == 0, result.output
    assert [row["id"] for row in rows(out)] == [
        "'=1+2",
        "'+a",
        "'-b",
        "'@c",
        "-1.5",
        "'=d",
        "plain",
        "+7",
    ]
    assert {row["label"] for row in rows(out)} <= {"'=x", "'-y"}
    (folder / "nodes.csv").write_text(out.read_text().replace("probability", "f"))
    again = load(folder)
    assert again.node_ids.tolist() == ids == [*AWKWARD[:5], "=d", *AWKWARD[6:]]
    assert set(again.class_names) <= {"=x", "-y"}

    result = invoke("predict", model, "--data", folder, "--out", out, "--raw", "--force")
    assert result.exit_code == 0, result.output
    assert [row["id"] for row in rows(out)] == ids
    table = ("--data", folder, "--out", tmp_path / "found.parquet", "--raw")
    assert_message(
        invoke("predict", model, *table), "--raw has no effect on a file that is not csv"
    )


def test_options_of_columns_that_the_model_has_settled(tmp_path):
    folder = write_colours(tmp_path / "colours", [KINDS[node % 3] for node in range(30)])
    model = tmp_path / "model.zip"
    made = invoke(
        "train", "--data", folder, "--one-hot", "colour", "--impute", "mean", "--out", model, *QUICK
    )
    assert made.exit_code == 0, made.output
    asked = ("--data", folder, "--out", tmp_path / "found.csv", "--impute", "zero")
    assert_message(
        invoke("predict", model, *asked), "--impute has no effect on a model that encodes"
    )
