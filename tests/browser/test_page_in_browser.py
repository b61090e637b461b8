"""The report page in a real browser: Debian's Chromium, without a network."""

import os
import shutil

import pytest
import torch

from meanmax import Graph, functional
from meanmax.study.paper.depth import overrides
from meanmax.study.report.page import write_report
from meanmax.study.runs.row import Result
from meanmax.study.store.store import Store

from ..study.report.made_pages import ATTACK, hostile_store, run

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="needs the extra browser: make test-browser"
)
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt-get install chromium"),
]
PARAMETERS = {
    "lp": (1.0, 2.5, 1000.0),
    "polynomial": (0.0, 1.5, 300.0),
    "softmax": (0.0, 2.0, 40.0),
}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    store, data = hostile_store(tmp_path_factory.mktemp("store"))
    return write_report(store.folder, datasets=[data]).as_uri()


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, address):
    """Opens the page; at the end there must have been no error and no request but its own."""
    messages, requests, pages = [], [], []

    def opened(width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("dialog", lambda dialog: (messages.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        pages.append(page)
        return page

    yield opened
    for page in pages:
        page.close()
    assert messages == []
    assert set(requests) == {address}


def column(page, number):
    return page.locator(f".results tbody tr > :nth-child({number})").all_text_contents()


def value(page, name):
    return float(page.get_attribute(f"#out-{name}", "data-value"))


def shown(page, name):
    return float(page.text_content(f"#out-{name}").replace("−", "-"))


def expected(values, weights, name, parameter=None):
    """The library's own number for one neighbourhood, whose values are all there are."""
    sources = torch.arange(len(values))
    graph = Graph.from_edge_index(torch.stack([sources, sources * 0]), len(values))
    x = torch.tensor(values, dtype=torch.float64)[:, None]
    weight = torch.tensor(weights, dtype=torch.float64)
    given = [] if parameter is None else [parameter]
    return float(getattr(functional, name)(x, graph, *given, edge_weight=weight)[0, 0])


def test_sorts_a_table_by_click_and_by_key(open_page):
    page = open_page()
    assert column(page, 1) == ["none", "lp", "softmax"]
    heading = page.get_by_role("button", name="score %")
    heading.click()
    assert column(page, 1) == ["softmax", "none", "lp"]
    heading.focus()
    page.keyboard.press("Enter")
    assert column(page, 1) == ["lp", "none", "softmax"]
    sorted_by = page.locator(".results th[aria-sort]")
    assert sorted_by.count() == 1 and sorted_by.get_attribute("aria-sort") == "descending"


def test_toggles_a_series_and_tells_values(open_page):
    page = open_page()
    curves = page.locator(".chart path.curve")
    assert curves.count() == 3
    page.locator(".chart .legend button", has_text="softmax").click()
    assert curves.count() == 2 and page.locator(".chart path.curve.c3").count() == 0
    page.locator(".chart .board").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip").is_visible()
    assert page.locator("#tip div").all_text_contents()[0] == "epoch 6"
    assert page.locator("#tip div").all_text_contents()[1].startswith("none = 0.1667 ")
    page.get_by_role("button", name="Learned parameter").click()
    assert curves.count() == 2  # lp's and softmax's, of which the baseline has none


@pytest.mark.parametrize("normalised", [True, False])
def test_the_playground_computes_what_the_library_does(open_page, normalised):
    page = open_page()
    values, weights = [-1.5, 0.25, 3.0, 3.0], [0.5, 2.0, 0.0, 1.25]
    for kind, given in (("value", values), ("weight", weights)):
        for field, number in zip(page.locator(f"#neighbours .{kind}").all(), given, strict=True):
            field.fill(str(number))
    page.locator("#normalise").set_checked(normalised)
    used = [weight / sum(weights) for weight in weights] if normalised else weights
    for name in ("mean", "max", "sum"):
        assert value(page, name) == pytest.approx(expected(values, used, name), abs=1e-9)
    for name, parameters in PARAMETERS.items():
        for parameter in parameters:
            page.fill(f"#{name}-value", str(parameter))
            wanted = expected(values, used, name, parameter)
            assert value(page, name) == pytest.approx(wanted, abs=1e-9), (name, parameter)
            assert shown(page, name) == pytest.approx(wanted, abs=1e-6)
    if normalised:
        page.fill("#lp-value", "1")
        assert value(page, "lp") == pytest.approx(value(page, "mean"), abs=1e-12)


def test_sliders_move_the_aggregators_from_mean_to_max(open_page):
    page = open_page()
    for name in PARAMETERS:
        slider = page.locator(f"#{name}-slider")
        slider.focus()
        page.keyboard.press("Home")
        low = value(page, name)
        assert low == pytest.approx(value(page, "mean"), abs=1e-9)
        slider.evaluate("(s) => { s.value = 600; s.dispatchEvent(new Event('input')); }")
        parameter = float(page.input_value(f"#{name}-value"))
        assert parameter == pytest.approx((name == "lp") + 50 * 0.6**3)
        wanted = expected([1, 2, 3.5, 6], [0.25] * 4, name, parameter)
        assert value(page, name) == pytest.approx(wanted, abs=1e-6)
        assert low < value(page, name) <= value(page, "max")
    page.fill("#softmax-value", "-1")
    assert "between 0 and 1000" in page.text_content("#play-error")


def test_names_from_data_stay_text(open_page):
    page = open_page()
    assert page.text_content("h1") == f"From mean to max on {ATTACK}"
    assert f"ValueError: {ATTACK}" in page.text_content(".failures")
    canvas = page.locator(".scatter canvas").first
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    lines = page.locator("#tip div").all_text_contents()
    assert lines == [f"node {ATTACK}1", "class: a & b \u2028", f"predicted: {ATTACK}", "wrong"]
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 8, box["y"] + box["height"] / 2)
    assert page.locator("#tip div").first.text_content() == f"node {ATTACK}0"
    assert page.locator("script").count() == 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone_in_both_themes(open_page, scheme, tmp_path):
    page = open_page(390, scheme)
    for details in page.locator("details").all():
        details.evaluate("(d) => { d.open = true; }")
    page.screenshot(path=tmp_path / "page.png", full_page=True)
    widths = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    assert page.evaluate(widths) == [390, 390]
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_a_long_name_does_not_widen_the_page(browser, tmp_path):
    name = "a" * 144
    Store(tmp_path).add(Result(run(1, "none", 0, data=name), {}))
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(write_report(tmp_path).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.close()


def test_a_finger_asks_as_a_mouse_does(browser, address):
    context = browser.new_context(viewport={"width": 390, "height": 900}, has_touch=True)
    page = context.new_page()
    page.goto(address)
    board, canvas = page.locator(".chart .board"), page.locator(".scatter canvas").first
    board.scroll_into_view_if_needed()
    board.tap()
    assert page.locator("#tip div").first.text_content().startswith("epoch ")
    canvas.scroll_into_view_if_needed()
    size = canvas.bounding_box()["width"]
    canvas.tap(position={"x": size - 8, "y": size / 2})
    assert page.locator("#tip div").first.text_content() == f"node {ATTACK}0"
    page.locator("h1").scroll_into_view_if_needed()
    page.locator("h1").tap()
    assert page.locator("#tip").is_hidden(), "a touch elsewhere ends it"
    context.close()


def test_paper_is_light(open_page):
    page = open_page(scheme="dark")
    page.emulate_media(media="print")
    colour = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(colour) == "rgb(255, 255, 255)"
    page.emulate_media(media="screen")
    page.locator("#theme").click()
    page.locator("#theme").click()  # dark again, now by choice
    page.emulate_media(media="print")
    assert page.evaluate(colour) == "rgb(255, 255, 255)"


def test_what_cannot_be_computed_shows_no_number(open_page):
    page = open_page()
    for field in page.locator("#neighbours .weight").all():
        field.fill("0")
    assert "At least one weight" in page.text_content("#play-error")
    assert {page.text_content(f"#out-{name}") for name in ("mean", "max", *PARAMETERS)} == {"–"}
    page.locator("#neighbours .weight").first.fill("1")
    assert page.locator("#play-error").is_hidden()
    assert value(page, "lp") == pytest.approx(1.0)


def test_every_control_is_reached_by_the_keyboard(open_page):
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(90):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    wanted = {"theme", "sort", "tab", "toggle", "board", "copy", "lp-slider", "softmax-value"}
    assert wanted <= reached


@pytest.fixture(scope="module")
def depths_address(tmp_path_factory):
    store = Store(tmp_path_factory.mktemp("depths"))
    for layers in (2, 4):
        for place, aggr in enumerate(("none", "lp")):
            number = 10 * layers + place
            made = run(
                number,
                aggr,
                0,
                split_hash="s",
                score=80.0 - layers + place,
                overrides=overrides(layers),
            )
            store.add(Result(made, {}))
    return write_report(store.folder).as_uri()


def test_a_chart_of_depths_counts_layers(browser, depths_address):
    page = browser.new_page(viewport={"width": 390, "height": 900})
    messages = []
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(depths_address)
    assert page.locator(".chart path.curve").count() == 2
    assert "layers" in page.locator(".chart text.tick").all_text_contents()
    page.locator(".chart .board").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip div").all_text_contents()[:2] == ["layers 2", "none = 78 [78, 78]"]
    page.keyboard.press("ArrowRight")
    assert page.locator("#tip div").first.text_content() == "layers 4", "there is nothing at 3"
    page.locator(".chart .legend button", has_text="lp").click()
    assert page.locator(".chart path.curve").count() == 1
    assert messages == []
    page.close()
