"""The report: its data, and the page in a real browser (skipped where there is no Chromium or no selenium)."""

import json
import re
import shutil

import pytest
import torch

import tograph as tg
from tograph.runtime.report import collect
from tograph.runtime.report.page import render

webdriver = None
try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    pass

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
DRIVER = shutil.which("chromedriver")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--window-size=1400,900"]  # fmt: skip
needs_browser = pytest.mark.skipif(
    not (webdriver and CHROMIUM and DRIVER), reason="no Chromium with its driver, or no selenium"
)


def halve(x, counter):
    while x.sum() > 1:
        x = x / 2
        counter += 1
    if x.min() < 0:
        tg.print("negative </script> & <b>", x)
    return x, counter


def concrete(function=halve, args=(torch.ones(4) * 5, torch.tensor(0))):
    return tg.function(function).get_concrete_function(*args)


def data_of(page):
    return json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.DOTALL)[1])


def test_data_of_a_graph():
    made = concrete()
    data = collect(made)
    (stage, *_) = data["stages"]
    nodes = stage["graph"]["nodes"]
    loop = next(n for n in nodes if n["op"] == "While")
    assert [r["title"] for r in loop["regions"]] == ["cond", "body"]
    assert [n["op"] for n in loop["regions"][1]["nodes"]][:1] == ["aten.div.Tensor"]
    made_values = {v for n in nodes for v in n["outs"]} | {p["v"] for p in stage["graph"]["ins"]}
    assert {v for n in nodes for v in n["ins"]} <= made_values
    assert [p["written"] for p in stage["graph"]["ins"]] == [False, True]
    branch = next(n for n in nodes if n["op"] == "If")
    assert "acts outside (io)" in branch["effects"]
    assert data["functions"][0]["name"] == "halve"
    assert data["functions"][0]["source"][1]["text"] == "    while x.sum() > 1:"
    assert not data["timed"] and data["signature"] == ["x: f32[4]", "counter: i64[]"]


def test_every_rewritten_line_knows_a_line_of_the_source():
    (function,) = collect(concrete())["functions"]
    source = {line["n"] for line in function["source"]}
    assert {line["n"] for line in function["made"]} <= source
    assert any("ag__.while_stmt" in line["text"] for line in function["made"])


def test_page_of_a_trace(tmp_path):
    function = tg.function(halve)  # which tells of its traces while it is alive
    made = function.get_concrete_function(torch.ones(4) * 5, torch.tensor(0))
    path = made.report(tmp_path / "out.html")
    page = path.read_text()
    assert page.count("</script>") == 2  # none from the data
    data = data_of(page)
    assert data.pop("retraces") == ["trace 1: first call; takes counter: int64[]"]
    assert data == {k: v for k, v in collect(made).items() if k != "retraces"}
    assert not re.search(
        r"""(src|href)=|@import|url\(http|https?://(?!www\.w3\.org/2000/svg)""", page
    )


def test_times_of_a_run_with_arguments(tmp_path):
    made = concrete()
    counter = torch.tensor(0)
    data = data_of(made.report(tmp_path / "out.html", torch.ones(4) * 5, counter).read_text())
    assert data["timed"] and data["total"] > 0
    loop = next(n for n in data["stages"][-1]["graph"]["nodes"] if n["op"] == "While")
    assert loop["runs"] == 1 and loop["seconds"] > 0
    assert [n["runs"] for n in loop["regions"][1]["nodes"]] == [5] * len(
        loop["regions"][1]["nodes"]
    )
    assert counter == 0  # it ran with copies


def test_retraces_have_reasons(tmp_path):
    f = tg.function(halve)
    for n in (2, 3):
        f(torch.ones(n), torch.tensor(0))
    data = collect(f.concrete_functions[0], f.concrete_functions[0].timed())
    assert data["retraces"][0].startswith("trace 1: first call")
    assert "argument 'x' changed from float32[2] to float32[3]" in data["retraces"][1]


def test_path_that_cannot_be_written(tmp_path):
    with pytest.raises(OSError):
        concrete().report(tmp_path / "nowhere" / "out.html")


def many_nodes(x, w):
    for i in range(330):
        a = torch.sin(x) + i
        b = (a * w).cos()
        if i % 60 == 0:
            while x.sum() > 10:
                x = x / 2
        x = (a - b).tanh() * w
    return x


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    made = concrete()
    path = tmp_path_factory.mktemp("report") / "halve.html"
    return made.report(path, torch.ones(4) * 5, torch.tensor(0)).as_uri()


def opened(browser, uri):
    browser.get("about:blank")
    browser.get(uri)
    assert browser.find_element(By.TAG_NAME, "html").get_attribute("data-ready") == "yes"
    return browser


def no_errors(browser):
    assert [
        entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]
    ] == []


def press(browser, *keys):
    browser.switch_to.active_element.send_keys(*keys)


@needs_browser
def test_every_view_opens_without_script_errors(browser, page):
    opened(browser, page)
    for tab in browser.find_elements(By.CSS_SELECTOR, "#tabs button"):
        tab.click()
        assert tab.get_attribute("aria-selected") == "true"
        assert browser.find_element(By.ID, "main").text.strip()
    no_errors(browser)


@needs_browser
def test_lines_are_linked_and_lead_to_their_nodes(browser, page):
    opened(browser, page)
    rows = browser.find_elements(By.CSS_SELECTOR, ".pair > div:first-child .line")
    row = next(r for r in rows if "x = x / 2" in r.text)
    number = row.get_attribute("data-n")
    webdriver.ActionChains(browser).move_to_element(row).perform()
    linked = browser.find_elements(By.CSS_SELECTOR, ".pair > div:last-child .line.linked")
    assert linked and {r.get_attribute("data-n") for r in linked} == {number}
    row.click()
    assert "aten.div.Tensor" in browser.find_element(By.CSS_SELECTOR, ".side").text
    no_errors(browser)


@needs_browser
def test_regions_fold_and_open_by_keyboard(browser, page):
    opened(browser, page)
    press(browser, "2")
    count = lambda: len(browser.find_elements(By.CSS_SELECTOR, "svg .item:not(.pin)"))
    open_ = count()
    press(browser, "c")
    folded = count()
    assert folded < open_
    press(browser, Keys.ARROW_DOWN)
    for _ in range(8):
        if "While" in browser.find_element(By.CSS_SELECTOR, ".side h2").text:
            break
        press(browser, Keys.ARROW_DOWN)
    press(browser, Keys.ENTER)
    assert folded < count() <= open_
    no_errors(browser)


@needs_browser
def test_resources_control_edges_and_effects_are_drawn(browser, page):
    opened(browser, page)
    press(browser, "2")
    assert browser.find_elements(By.CSS_SELECTOR, "svg .edge.resource")
    assert browser.find_elements(By.CSS_SELECTOR, "svg .edge.control")
    assert browser.find_elements(By.CSS_SELECTOR, "svg .item.effect")
    assert browser.find_elements(By.CSS_SELECTOR, "svg .item.pin.written")
    no_errors(browser)


@needs_browser
def test_search_goes_to_a_node(browser, page):
    opened(browser, page)
    press(browser, "2")
    press(browser, "/")
    press(browser, "div", Keys.ENTER)
    assert browser.find_element(By.CSS_SELECTOR, ".side h2").text == "aten.div.Tensor"
    no_errors(browser)


@needs_browser
def test_light_and_dark(browser, page):
    opened(browser, page)
    colours = []
    for _ in range(2):
        press(browser, "t")
        style = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
        colours.append(browser.execute_script(style))
    brightness = [[sum(map(int, re.findall(r"\d+", c)[:3])) for c in pair] for pair in colours]
    for back, text in brightness:
        assert abs(back - text) > 450  # of 765
    assert colours[0] != colours[1]
    no_errors(browser)


@needs_browser
def test_two_thousand_nodes(browser, tmp_path):
    made = concrete(many_nodes, (torch.ones(4), torch.ones(4)))
    data = data_of(made.report(tmp_path / "many.html").read_text())
    assert len(data["stages"][0]["graph"]["nodes"]) > 1900
    opened(browser, (tmp_path / "many.html").as_uri())
    press(browser, "2")
    shown = lambda: len(browser.find_elements(By.CSS_SELECTOR, "svg .item"))
    assert 5 < shown() < 100  # folded at first
    press(browser, "/")
    press(browser, "aten.cos", Keys.ENTER)
    assert "aten.cos.default" in browser.find_element(By.CSS_SELECTOR, ".side h2").text
    assert shown() < 300
    browser.find_element(By.CSS_SELECTOR, "svg").click()
    press(browser, Keys.ESCAPE)
    browser.execute_script("picture.foldAll(true)")
    assert shown() > 600
    no_errors(browser)


def test_render_needs_no_function():
    data = collect(concrete())
    data["functions"], data["retraces"] = [], []
    assert "tograph report" in render(data)
