"""Reports in a real browser: nothing fails, tables sort and filter, nobody is left out."""

from __future__ import annotations

import base64
import csv
import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from corpus import ROOT, corpus_file
from fast import one_in
from requirements import program
from tbd_trace.analysis.report.page import Figure, Figures, Note, Page, Section, Table, render_page
from tbd_trace.analysis.report.sections import report
from tbd_trace.api import Traces
from tbd_trace.present import csv as csv_form
from tbd_trace.store import Database

selenium = pytest.importorskip("selenium")
from selenium import webdriver  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.slow]

SAMPLE = ROOT / "data" / "samples" / "synthetic_cnn"
REAL = {
    "layers": "nsys/MohanadOdema_DLProf__w_Relu__nsys_profile.sqlite",
    "ncu": "ncu/chia7_ece408_project__analysis_file.raw.csv",
    "nvprof": "nvprof/josiahdavis_profiling-lm__net.sql",
}
HOSTILE = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
NARROW, WIDE = 400, 1280
_MOST_PAGES = 6  # on paper
_TOGGLED = 0.2  # s until the events of opened sections were handled
ALL = "return [...document.querySelectorAll(arguments[0])]"
Driver = Any


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Return Debian's chromium without a window."""
    chromium, chromedriver = program("chromium"), program("chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    profile = tmp_path_factory.mktemp("chromium")
    for argument in (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        f"--user-data-dir={profile}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(chromedriver))
    yield opened
    opened.quit()


@pytest.fixture
def show(driver: Driver) -> Iterator[Callable[..., Driver]]:
    """Return what opens a page in a size, a colour scheme and a medium."""

    def shown(
        path: Path,
        *,
        width: int = WIDE,
        scheme: str = "light",
        media: str = "screen",
        unfold: bool = True,
    ) -> Driver:
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"media": media, "features": [feature]}
        )
        driver.get(path.as_uri())
        if unfold:
            driver.execute_script(
                "document.querySelectorAll('.fold').forEach(fold => { fold.open = true; })"
            )
            time.sleep(_TOGGLED)
        return driver

    yield shown
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return what writes the report of one of the traces, once."""
    folder = tmp_path_factory.mktemp("reports")

    def page(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            database = Database(folder / f"{name}.duckdb")
            database.ingest([_source(name, folder)])
            path.write_bytes(report(Traces(database, database.trace_ids())))
        return path

    return page


def _source(name: str, folder: Path) -> Path:
    if name == "sample":
        return SAMPLE
    if name == "cpu":
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(ROOT / "tests" / "golden"))
            from cpu_capture import write_capture

            return write_capture(folder / "capture")
    return corpus_file(REAL[name])


@pytest.fixture(params=one_in(5, ["sample", "cpu", *REAL], then_one_in=4))
def any_page(request: pytest.FixtureRequest, pages: Callable[[str], Path]) -> Path:
    return pages(request.param)


@pytest.fixture
def sample(pages: Callable[[str], Path]) -> Path:
    return pages("sample")


def complaints(driver: Driver) -> list[str]:
    return [entry["message"] for entry in driver.get_log("browser")]


def script(driver: Driver, text: str, *arguments: object) -> Any:
    return driver.execute_script(text, *arguments)


def kernel_table(driver: Driver) -> Any:
    return driver.find_element(By.CSS_SELECTOR, "#kernels table[data-filterable]")


def column(table: Any, number: int) -> list[str]:
    cells = table.find_elements(By.CSS_SELECTOR, f"tbody td:nth-child({number})")
    return [cell.get_attribute("textContent") for cell in cells]


def heading(table: Any, label: str) -> tuple[int, Any]:
    for number, cell in enumerate(table.find_elements(By.CSS_SELECTOR, "thead th"), 1):
        if cell.get_attribute("textContent").startswith(label):
            return number, cell
    raise AssertionError(label)


def numbers(texts: list[str]) -> list[float]:
    return [float(text.replace(",", "")) for text in texts]


def test_nothing_is_complained_about(any_page: Path, show: Callable[..., Driver]) -> None:
    driver = show(any_page)
    assert complaints(driver) == []
    assert script(driver, "return document.compatMode") == "CSS1Compat"
    assert script(driver, "return performance.getEntriesByType('resource').length") == 0
    assert driver.find_elements(By.CSS_SELECTOR, "table") != []


@pytest.mark.parametrize("width", [NARROW, 800, WIDE])
def test_only_tables_and_plots_scroll_sideways(
    any_page: Path, show: Callable[..., Driver], width: int
) -> None:
    driver = show(any_page, width=width)
    assert script(driver, "return document.documentElement.scrollWidth") <= width
    assert script(driver, "return document.body.scrollWidth") <= width


def test_the_structure_can_be_read_aloud(any_page: Path, show: Callable[..., Driver]) -> None:
    driver = show(any_page)
    for selector in ("h1", "main", "body > header", "body > nav[aria-label]", "body > footer"):
        assert len(driver.find_elements(By.CSS_SELECTOR, selector)) == 1, selector
    assert script(driver, "return document.documentElement.lang") == "en"
    assert driver.title
    levels = script(driver, f"{ALL}.map(e => +e.tagName[1])", "h1, h2, h3")
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    ids = script(driver, f"{ALL}.map(e => e.id)", "[id]")
    assert len(ids) == len(set(ids))
    targets = script(driver, f"{ALL}.map(e => e.hash)", "a[href^='#']")
    assert {target[1:] for target in targets} <= set(ids)


def test_everything_has_a_name(any_page: Path, show: Callable[..., Driver]) -> None:
    driver = show(any_page)
    named = "table, a, button, input, summary, svg[role=img], section, [role=group]"
    for element in driver.find_elements(By.CSS_SELECTOR, named):
        assert element.accessible_name, element.get_attribute("outerHTML")[:200]
    for cell in driver.find_elements(By.CSS_SELECTOR, "th"):
        assert cell.get_attribute("scope") == "col"
    svg = driver.find_elements(By.CSS_SELECTOR, ".plot svg")
    assert all(len(image.get_attribute("aria-label")) > 30 for image in svg)


def test_the_skip_link_leads_past_the_contents(sample: Path, show: Callable[..., Driver]) -> None:
    driver = show(sample)
    driver.switch_to.active_element.send_keys(Keys.TAB)
    link = driver.switch_to.active_element
    assert link.text == "Skip to the content"
    assert link.rect["x"] >= 0
    link.send_keys(Keys.ENTER)
    assert driver.switch_to.active_element.get_attribute("id") == "main"


def test_a_click_sorts_and_another_turns_the_order(
    sample: Path, show: Callable[..., Driver]
) -> None:
    table = kernel_table(show(sample))
    number, cell = heading(table, "median")
    button = cell.find_element(By.TAG_NAME, "button")
    before = numbers(column(table, number))
    button.click()
    assert cell.get_attribute("aria-sort") == "descending"
    assert numbers(column(table, number)) == sorted(before, reverse=True) != before
    button.click()
    assert cell.get_attribute("aria-sort") == "ascending"
    assert numbers(column(table, number)) == sorted(before)


def test_keys_sort_names_and_only_one_column_says_so(
    sample: Path, show: Callable[..., Driver]
) -> None:
    table = kernel_table(show(sample))
    heading(table, "total")[1].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    number, cell = heading(table, "kernel name")
    names = column(table, number)
    cell.find_element(By.TAG_NAME, "button").send_keys(Keys.SPACE)
    assert cell.get_attribute("aria-sort") == "ascending"
    assert column(table, number) == sorted(names, key=str.casefold) != names
    assert len(table.find_elements(By.CSS_SELECTOR, "[aria-sort]")) == 1


def test_cells_without_a_value_stay_last(tmp_path: Path, show: Callable[..., Driver]) -> None:
    frame = pl.DataFrame({"n": [3, None, 1, None, 2], "name": list("abcde")})
    section = Section("s", "S", blocks=[Table(frame)])
    (tmp_path / "page.html").write_bytes(render_page(Page("T", sections=[section])))
    table = show(tmp_path / "page.html").find_element(By.TAG_NAME, "table")
    button = heading(table, "n")[1].find_element(By.TAG_NAME, "button")
    button.click()
    assert column(table, 2) == ["a", "e", "c", "b", "d"]
    button.click()
    assert column(table, 2) == ["c", "e", "a", "b", "d"]


def test_words_filter_rows_and_the_number_is_said(
    sample: Path, show: Callable[..., Driver]
) -> None:
    driver = show(sample)
    table = kernel_table(driver)
    every = column(table, 1)
    box = driver.find_element(By.CSS_SELECTOR, f"input[aria-controls={table.get_attribute('id')}]")
    box.send_keys("SCUDNN relu")
    kept = [name for name in every if "scudnn" in name and "relu" in name]
    shown = [row for row in table.find_elements(By.CSS_SELECTOR, "tbody tr") if row.is_displayed()]
    assert [row.find_element(By.TAG_NAME, "td").text for row in shown] == kept
    assert 0 < len(kept) < len(every)
    status = box.find_element(By.XPATH, "../following-sibling::*[@role='status']")
    assert status.text == f"{len(kept)} of {len(every)} rows"
    box.send_keys(Keys.CONTROL, "a")
    box.send_keys(Keys.BACKSPACE)
    assert all(row.is_displayed() for row in table.find_elements(By.CSS_SELECTOR, "tbody tr"))


def test_long_names_are_shown_whole_on_request(sample: Path, show: Callable[..., Driver]) -> None:
    driver = show(sample)
    table = kernel_table(driver)
    button = driver.find_element(
        By.CSS_SELECTOR, f"button[aria-controls={table.get_attribute('id')}]"
    )
    before = table.size["height"]
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-pressed") == "true"
    assert table.size["height"] > before
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert table.size["height"] == before


def test_rows_are_downloaded_as_csv(
    sample: Path, show: Callable[..., Driver], tmp_path: Path
) -> None:
    driver = show(sample)
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    links = driver.find_elements(By.CSS_SELECTOR, "#kernels a[download='kernel_summary.csv']")
    assert len(links) > 1  # of the plot, and of the table below it
    script(driver, "arguments[0].click()", links[-1])
    path = tmp_path / "kernel_summary.csv"
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    with path.open(newline="") as file:
        names = [row["kernel_name"] for row in csv.DictReader(file)]
    assert names == column(kernel_table(driver), 1)


def _luminance(colour: str) -> float:
    parts = [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, as WCAG 2 defines it."""
    dark, light = sorted((_luminance(first), _luminance(second)))
    return (light + 0.05) / (dark + 0.05)


COLOURS = """
const ground = (e) => { for (; e; e = e.parentElement) {
  const colour = getComputedStyle(e).backgroundColor;
  if (colour !== 'rgba(0, 0, 0, 0)') return colour; } };
return [...document.querySelectorAll(arguments[0])].slice(0, 40).map((e) =>
  [e.outerHTML.slice(0, 80), getComputedStyle(e)[arguments[1]], ground(e)]);
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out_from_their_ground(
    pages: Callable[[str], Path], show: Callable[..., Driver], scheme: str
) -> None:
    for name in ("sample", "cpu"):
        driver = show(pages(name), scheme=scheme)
        for selector in ("p", "h2", "td", "th", "a", "dt", ".unit", ".missing", ".severity", "b"):
            for what, colour, ground in script(driver, COLOURS, selector, "color"):
                assert contrast(colour, ground) >= 4.5, (what, colour, ground)
        for what, colour, ground in script(driver, COLOURS, ".plot svg text", "fill"):
            assert contrast(colour, ground) >= 4.5, (what, colour, ground)
    ground = script(driver, "return getComputedStyle(document.body).backgroundColor")
    assert (_luminance(ground) < 0.5) == (scheme == "dark")


def test_on_paper_there_is_all_and_nothing_to_press(
    sample: Path, show: Callable[..., Driver]
) -> None:
    driver = show(sample, width=718, scheme="dark", media="print")  # A4 without margins
    for selector in ("nav", ".skip", ".tools", ".block details", "p.source a"):
        found = driver.find_elements(By.CSS_SELECTOR, selector)
        assert found, selector
        assert not any(element.is_displayed() for element in found), selector
    ground = script(driver, "return getComputedStyle(document.body).backgroundColor")
    assert _luminance(ground) > 0.9
    cut = f"{ALL}.filter(e => e.scrollHeight > e.clientHeight + 2).length"
    assert script(driver, cut, ".clamp") == 0
    scrolling = script(driver, f"{ALL}.map(e => getComputedStyle(e).overflowX)", ".scroll")
    assert set(scrolling) == {"visible"}
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")


def test_without_scripts_the_tables_are_there(sample: Path, show: Callable[..., Driver]) -> None:
    driver = show(sample)
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    driver.refresh()
    assert len(driver.find_elements(By.CSS_SELECTOR, "#kernels tbody tr")) > 10
    assert driver.find_elements(By.CSS_SELECTOR, "input, table button") == []
    links = driver.find_elements(By.CSS_SELECTOR, "#kernels a[download]")
    assert links[0].get_attribute("href").startswith("data:text/csv")


def test_html_in_names_runs_nothing(tmp_path: Path, show: Callable[..., Driver]) -> None:
    frame = pl.DataFrame({"kernel_name": [HOSTILE, "b"], "total_ns": [2, 1]})
    blocks = [
        Figures([Figure(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)], HOSTILE),
        Table(frame, {"total_ns": "ns"}, HOSTILE, filterable=True, caption=HOSTILE),
        Note(HOSTILE),
    ]
    page = Page(HOSTILE, HOSTILE, [Section("s", HOSTILE, HOSTILE, blocks)])
    (tmp_path / "page.html").write_bytes(render_page(page))
    driver = show(tmp_path / "page.html")
    heading(driver.find_element(By.TAG_NAME, "table"), "kernel")[1].find_element(
        By.TAG_NAME, "button"
    ).click()
    assert complaints(driver) == []
    assert script(driver, "return window.pwned") is None
    assert HOSTILE in column(driver.find_element(By.TAG_NAME, "table"), 1)
    link = driver.find_element(By.CSS_SELECTOR, "a[download]").get_attribute("href")
    assert base64.b64decode(link.partition("base64,")[2]) == csv_form.render(frame)


def test_the_policy_stops_what_is_not_the_pages_own(
    sample: Path, show: Callable[..., Driver]
) -> None:
    driver = show(sample)
    complaints(driver)
    script(
        driver,
        "const s = document.createElement('script'); s.textContent = 'window.pwned = 1';"
        "document.body.append(s);"
        "const i = new Image(); i.src = 'http://localhost:9/x.png'; document.body.append(i);",
    )
    said = complaints(driver)
    assert script(driver, "return window.pwned") is None
    assert len([text for text in said if "Content Security Policy" in text]) == 2


def test_above_the_fold_are_the_verdict_a_step_and_the_gaps(
    sample: Path, show: Callable[..., Driver]
) -> None:
    driver = show(sample, width=1440, unfold=False)
    for selector in ("#why .lead", "#why .plot svg", "#why .plot + .plot svg", "#why .block thead"):
        place = driver.find_element(By.CSS_SELECTOR, selector).rect
        assert place["y"] + place["height"] <= 900, selector


def test_a_link_opens_its_section_and_a_button_all(
    sample: Path, show: Callable[..., Driver]
) -> None:
    driver = show(sample, unfold=False)
    table = kernel_table(driver)
    assert not table.is_displayed()
    driver.find_element(By.CSS_SELECTOR, "nav a[href='#kernels']").click()
    time.sleep(_TOGGLED)
    assert table.is_displayed()
    driver.find_element(By.CSS_SELECTOR, "button.all").click()
    assert script(driver, f"{ALL}.every(fold => fold.open)", ".fold")
    driver.find_element(By.CSS_SELECTOR, "button.all").click()
    assert script(driver, f"{ALL}.every(fold => !fold.open)", ".fold")


def test_folded_sections_are_not_printed(sample: Path, show: Callable[..., Driver]) -> None:
    driver = show(sample, width=718, media="print", unfold=False)
    assert not driver.find_element(By.CSS_SELECTOR, "#kernels").is_displayed()
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    pages = base64.b64decode(printed["data"]).count(b"/Type /Page\n")
    assert 1 <= pages <= _MOST_PAGES
