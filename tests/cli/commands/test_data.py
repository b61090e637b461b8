import json

import numpy as np
import pytest
from click.testing import CliRunner

from meanmax.cli import main
from meanmax.data import CATALOG, DataError, load

NODES = "id,f,label\na,1,x\nb,2,y\nc,3,x\n"
EDGES = "source,target\na,b\nb,c\n"


def invoke(*args, env=None):
    env = {"MEANMAX_DATA": None, "XDG_CACHE_HOME": "/nonexistent", **(env or {})}
    return CliRunner().invoke(main, ["data", *map(str, args)], env=env)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def test_help_lists_the_commands():
    result = invoke("--help")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in ("list", "show", "fetch", "check"))
    assert "MEANMAX_DATA" in invoke("list", "--help").stdout


def test_list_names_every_set_with_its_counts():
    result = invoke("list")
    assert result.exit_code == 0, result.output
    lines = {line.split("│")[1].strip(): line for line in result.stdout.splitlines() if "│" in line}
    assert lines.keys() >= CATALOG.keys()
    assert "2,708" in lines["cora"] and "5,429" in lines["cora"] and " 7 " in lines["cora"]


@pytest.mark.parametrize("by", ["option", "variable"])
def test_list_finds_what_is_on_disk(by, tmp_path):
    (file,) = CATALOG["photo"].files
    (tmp_path / file.name).write_bytes(b"looked at when read")
    if by == "option":
        result = invoke("list", "--json", "--data-dir", tmp_path)
    else:
        result = invoke("list", "--json", env={"MEANMAX_DATA": str(tmp_path)})
    on_disk = {row["name"]: row["on_disk"] for row in json.loads(result.stdout)}
    assert on_disk["photo"] and on_disk["karate"]
    assert not on_disk["computers"]


def test_show_counts_an_own_graph(folder):
    result = invoke("show", folder, "--json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert shown["class_names"] == ["x", "y"]
    assert shown["paper"] is None
    counted = shown["statistics"]
    assert (counted["nodes"], counted["edges"], counted["max_degree"]) == (3, 2, 2)
    assert (counted["homophily"], counted["components"], counted["isolated"]) == (0.0, 1, 0)


def test_show_keeps_the_direction_of_an_own_graph_if_asked(folder):
    assert not json.loads(invoke("show", folder, "--json").stdout)["statistics"]["directed"]
    result = invoke("show", folder, "--directed", "--json")
    assert json.loads(result.stdout)["statistics"]["directed"], result.output
    assert_message(invoke("show", "karate", "--directed"), "'directed' is for graphs of your own")


def test_show_prints_licence_and_source():
    result = invoke("show", "karate")
    assert result.exit_code == 0, result.output
    rows = [line.split("│")[1:3] for line in result.stdout.splitlines() if line.startswith("│")]
    rows = {label.strip(): value.strip() for label, value in rows}
    assert (rows["nodes"], rows["edges"], rows["mean degree"]) == ("34", "78", "4.588")
    assert "licence: " in result.stdout and "source: " in result.stdout


def test_show_stands_beside_the_paper(folder, monkeypatch):
    own = load(folder)
    monkeypatch.setattr("meanmax.data.load", lambda *args, **options: own)
    result = invoke("show", "cora")
    lines = [line.split("│") for line in result.stdout.splitlines() if line.startswith("│")]
    rows = {cells[1].strip(): [cells[2].strip(), cells[3].strip()] for cells in lines}
    assert rows["nodes"] == ["3", "2,708"]
    assert rows["homophily"] == ["0.000", ""]


def test_facts_are_a_line_for_each_data_set(folder):
    result = invoke("facts", "karate", "wine", "--split", "random")
    assert result.exit_code == 0, result.output
    club, wine = map(json.loads, result.stdout.splitlines())
    assert (club["data"], club["split"], club["label_rate"]) == ("karate", "random", 20 / 34)
    assert (wine["data"], wine["density"]) == ("wine", 1.0)
    assert_message(invoke("facts", "coraa"), "no data set 'coraa'")


@pytest.mark.parametrize("name", ["show", "fetch"])
def test_unknown_names_get_a_suggestion(name):
    assert_message(invoke(name, "coraa"), "no data set 'coraa'", "did you mean 'cora'")


def test_show_of_a_broken_graph_names_the_line(folder):
    (folder / "edges.csv").write_text("source,target\na,zoe\n")
    assert_message(invoke("show", folder), "edges.csv:2: target 'zoe' is not among the nodes")


def test_fetch_goes_on_after_a_failure(tmp_path, monkeypatch):
    asked = []

    def fetch(name, *, data_dir, progress):
        asked.append((name, data_dir))
        progress(f"{name}.npz", 5, 10)
        if name == "photo":
            raise DataError("tried here and there; put the file into the folder")
        return [data_dir / f"{name}.npz"]

    monkeypatch.setattr("meanmax.data.fetch.sources.fetch", fetch)
    result = invoke("fetch", "photo", "computers", "karate", "--data-dir", tmp_path)
    assert asked == [("photo", tmp_path), ("computers", tmp_path)]
    assert_message(result, "photo: tried here and there")
    assert f"computers: 1 file in {tmp_path}\nkarate: needs no files\n" == result.stdout


def test_fetch_needs_a_name():
    assert_message(invoke("fetch"), "Missing argument 'NAMES...'")


def test_check_of_a_good_graph(folder):
    result = invoke("check", folder)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("0 errors, 1 note: 3 nodes, 1 feature, 2 classes\n")


def test_check_of_a_directed_graph(folder):
    for option in ((), ("--directed",)):
        (folder / "edges.csv").write_text("source,target\na,b\nb,c\n")
        assert invoke("check", folder, *option).exit_code == 0
        shown = json.loads(invoke("show", folder, "--json", *option).stdout)
        assert shown["statistics"]["directed"] == bool(option)


def test_check_lists_every_problem(folder):
    (folder / "nodes.csv").write_text("id,f,label\na,1,x\nb,nan,y\n")
    (folder / "edges.csv").write_text("source,target\na,b\n\nb,zoe\n")
    result = invoke("check", folder)
    assert result.exit_code == 1
    assert f"{folder}/nodes.csv:3: error: feature 'f' is not finite" in result.stdout
    assert f"{folder}/edges.csv:4: error: target 'zoe' is not among the nodes\n    add" in (
        result.stdout
    )
    assert "2 errors, " in result.stdout


def test_check_prints_json(folder):
    (folder / "edges.csv").write_text("source,target\na,zoe\n")
    result = invoke("check", folder / "edges.csv", "--json")
    assert result.exit_code == 1
    problem = json.loads(result.stdout)[0]
    assert problem.keys() == {"severity", "file", "line", "message", "advice"}
    assert (problem["severity"], problem["file"], problem["line"]) == ("error", "edges.csv", 2)


def test_check_of_one_file(tmp_path):
    np.savez(tmp_path / "a.npz", edges=[[0, 1]], features=np.eye(2), labels=[0, 1])
    assert "2 nodes, 2 features, 2 classes" in invoke("check", tmp_path / "a.npz").stdout
    assert_message(invoke("check", tmp_path / "b.npz"), "does not exist")


def assert_message(result, *parts):
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    text = " ".join(result.stderr.split())
    assert all(part in text for part in parts), text


def table_rows(result):
    """The cells of all rows of printed tables."""
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]


def test_show_prints_the_sizes_of_classes(folder):
    rows = table_rows(invoke("show", folder))
    assert ["x", "2", "66.7 %"] in rows and ["y", "1", "33.3 %"] in rows
    assert json.loads(invoke("show", folder, "--json").stdout)["class_sizes"] == {"x": 2, "y": 1}


def test_show_prints_the_largest_and_smallest_of_many_classes(tmp_path):
    labels = np.repeat(np.arange(40), np.arange(40, 0, -1))
    arrays = {"edges": np.array([[0, 1]]), "features": np.ones((labels.size, 1)), "labels": labels}
    np.savez(tmp_path / "many.npz", **arrays)
    names = [row[0] for row in table_rows(invoke("show", tmp_path / "many.npz")) if len(row) == 3]
    assert names == [*map(str, range(8)), "… 24 more", *map(str, range(32, 40))]


def test_show_describes_a_target(folder):
    (folder / "nodes.csv").write_text("id,f,label\na,1,1.5\nb,2,4\nc,3,\n")
    rows = dict(table_rows(invoke("show", folder)))
    found = [rows[f"{which} target"] for which in ("smallest", "mean", "largest")]
    assert (found, rows["standard deviation"]) == (["1.5", "2.75", "4"], "1.25")
    assert rows["labelled nodes"] == "2" and not {"classes", "homophily"} & set(rows)
    assert "3 nodes, 1 feature, a number to predict" in invoke("check", folder).stdout
    assert json.loads(invoke("show", folder, "--json").stdout)["task"] == "regression"


def test_show_counts_given_splits(tmp_path):
    masks = dict.fromkeys(("train_masks", "val_masks", "test_masks"), np.zeros((3, 4), bool))
    masks["train_masks"] = np.ones((3, 4), bool)
    arrays = {"node_features": np.ones((4, 1)), "node_labels": np.array([0, 1, 0, 1])}
    np.savez(tmp_path / "g.npz", edges=np.array([[0, 1]]), **arrays, **masks)
    assert ["given splits", "3"] in table_rows(invoke("show", tmp_path / "g.npz"))


def test_categories_and_gaps(folder):
    (folder / "nodes.csv").write_text("id,f,kind,label\na,1,u,x\nb,,v,y\nc,3,u,x\n")
    result = invoke("check", folder)
    assert result.exit_code == 1
    assert "--one-hot kind" in result.stdout and "--impute mean" in result.stdout
    asked = ("--one-hot", "kind", "--impute", "mean")
    assert "3 nodes, 3 features, 2 classes" in invoke("check", folder, *asked).stdout
    assert ["features", "3"] in table_rows(invoke("show", folder, *asked))


@pytest.fixture
def collection(tmp_path):
    """Three graphs of three, two and one nodes, without features."""
    tables = {
        "graphs": "id,label\ng,x\nh,y\ni,\n",
        "nodes": "graph,id\ng,1\ng,2\ng,3\nh,4\nh,5\ni,6\n",
        "edges": "source,target\n1,2\n2,3\n4,5\n",
    }
    for name, text in tables.items():
        (tmp_path / f"{name}.csv").write_text(text)
    return tmp_path


def test_show_counts_graphs(collection):
    result = invoke("show", collection)
    assert "own graphs: " in result.stdout and "their degrees are used" in result.stdout
    rows = table_rows(result)
    assert ["graphs", "3"] in rows and ["labelled graphs", "2"] in rows
    assert ["nodes of a graph", "2.0 (1 to 3)"] in rows and ["features are", "degrees"] in rows
    assert ["x", "1", "50.0 %"] in rows and "homophily" not in result.stdout
    shown = json.loads(invoke("show", collection, "--json").stdout)
    assert (shown["level"], shown["degree_features"]) == ("graph", True)
    assert shown["graph_sizes"] == {"mean": 2.0, "min": 1, "max": 3}


def test_show_of_one_graph_says_nothing_of_several(folder):
    shown = json.loads(invoke("show", folder, "--json").stdout)
    assert (shown["level"], shown["graph_sizes"], shown["degree_features"]) == ("node", None, False)
    assert not {"nodes of a graph", "features are"} & set(invoke("show", folder).stdout.split("│"))


def test_check_counts_graphs(collection):
    assert "3 graphs, 6 nodes, 64 features, 2 classes" in invoke("check", collection).stdout
    (collection / "graphs.csv").write_text("id,label\ng,x\nh,y\n")
    result = invoke("check", collection)
    assert result.exit_code == 1
    assert f"{collection}/nodes.csv:7: error: graph 'i' is not in graphs.csv" in result.stdout


def test_pack_refuses_graphs_with_labels(collection, tmp_path):
    result = invoke("pack", collection, tmp_path / "packed")
    assert_message(result, "has labels of whole graphs, which are trained from memory")
    assert not (tmp_path / "packed").exists()


def test_fetch_of_a_collection_says_where_it_is(tmp_path):
    assert_message(invoke("fetch", "mutag"), "are not downloaded", "MUTAG.zip")
    (tmp_path / "tu").mkdir()
    (tmp_path / "tu" / "MUTAG.zip").write_bytes(b"looked at when read")
    result = invoke("fetch", "mutag", "--data-dir", tmp_path)
    assert result.stdout == f"mutag: 1 file in {tmp_path / 'tu'}\n"
    rows = json.loads(invoke("list", "--json", "--data-dir", tmp_path).stdout)
    on_disk = {row["name"]: row["on_disk"] for row in rows}
    assert on_disk["mutag"] and on_disk["digits-graphs"] and not on_disk["nci1"]


def test_pack_without_parts_has_no_cut(folder, tmp_path):
    result = invoke("pack", folder, tmp_path / "packed", "--cut", "blocks")
    assert result.exit_code == 2 and "--cut has no effect without --parts" in result.stderr
    assert not (tmp_path / "packed").exists()
