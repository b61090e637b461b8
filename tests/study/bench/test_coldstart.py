from meanmax.study.bench import coldstart


def test_two_processes_share_one_cache(monkeypatch):
    """The children compile for a minute, so only what is asked of them is tested."""
    asked = []

    def child(module, request, env):
        asked.append((module, request, env["NUMBA_CACHE_DIR"]))
        return {"run": len(asked)}

    monkeypatch.setattr(coldstart, "run_child", child)
    result = coldstart.cold_start(threads=2)
    assert asked[0] == asked[1]
    assert (result["compile"], result["cached"]) == ({"run": 1}, {"run": 2})


def test_first_calls_of_this_process():
    answer = coldstart.respond({"threads": 2})
    first = answer["first_call_seconds"]
    assert list(first) == ["lp-numba", "polynomial-numba", "softmax-numba", "exact-numba"]
    assert all(seconds > 0 for seconds in first.values())
    assert answer["three_aggregators_seconds"] == sum(list(first.values())[:3])
