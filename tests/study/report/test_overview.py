import dataclasses

from meanmax.study.runs.row import Result
from meanmax.study.store.store import Store

from .made_pages import arrays, fill, page, run, shown


def test_without_a_baseline_nothing_is_compared(tmp_path):
    fill(tmp_path, aggrs=("lp", "softmax"))
    found = shown(tmp_path)
    assert found["sections"][0]["forest"] is None
    assert "was not run" in found["sections"][0]["notes"][0]
    assert "was not run" in page(tmp_path)


def test_several_data_sets_become_the_papers_tables(tmp_path):
    fill(tmp_path)
    store = Store(tmp_path)
    for place, aggr in enumerate(("none", "lp")):
        for split in range(6):
            made = run(500 + 100 * place + split, aggr, split, data="photo", data_hash="e" * 20)
            store.add(Result(made, arrays(aggr)))
    found = shown(tmp_path)
    second, third = found["matrices"]
    assert second["sets"] == ["cora", "photo"] and third["title"].startswith("Table 3")
    assert second["rows"][0]["cells"][1]["ours"] == 80.0
    assert second["rows"][2]["cells"][1] is None
    assert found["sentences"][0]["text"].startswith("Of 3 comparisons")


def test_each_data_set_has_a_forest_with_its_splits_and_their_number(tmp_path):
    fill(tmp_path, splits=6)
    for place, (split, data) in enumerate((("public", "cora"), ("citation", "photo"))):
        for seed in range(3):
            for aggr, score in (("none", 70.0), ("lp", 71.0 + seed)):
                number = 5000 + 100 * place + 10 * seed + (aggr == "lp")
                made = run(number, aggr, seed, score=score, data=data, split_hash=f"{split}{seed}")
                Store(tmp_path).add(Result(dataclasses.replace(made, split=split), {}))
    cora, photo = shown(tmp_path)["forests"]
    assert (cora["data"], photo["data"]) == ("cora", "photo")
    places = list(dict.fromkeys(line["place"] for line in cora["plot"]["lines"]))
    assert len(places) == 2 and any("public" in place for place in places)
    lines = {(line["place"], line["aggr"]): line for line in cora["plot"]["lines"]}
    many = next(line for line in lines.values() if line["pairs"] == 6 and line["aggr"] == "lp")
    few = next(line for line in lines.values() if line["pairs"] == 3)
    assert (many["few"], few["few"]) == (False, True)
    assert many["from"] is not None and few["from"] is None, "three splits have no interval"
    assert "n 3</span>" in page(tmp_path)
