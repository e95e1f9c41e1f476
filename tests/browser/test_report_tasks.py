"""What a data user does with a report, found by the words on the page: figures, comparisons, sums, files, citations."""

import csv
import io
import json
import math
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import openpyxl
import polars as pl
import pytest
from PIL import Image
from playwright.sync_api import Locator, Page, expect

import phsafe
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.display.numbers import FLAG, FLAG_TEXT, rounded_texts
from phsafe.estimation.estimates import VALUES
from phsafe.pipeline.scan import Settings, count
from phsafe.synthetic import synth

from ..reports.conftest import noisy_release  # noqa: TID252

#: The budgets of 2020 times this.
BUDGET = 100
TABULATIONS = ("PH1_num", "PH1_denom", "PH2", "PH3")
STATES = ["06", "11", "15", "32", "41", "44", "50", "53", "54", "56"]
PUBLICATION = {
    "title": "Households 2030",
    "agency": "Bureau of Examples",
    "contact": "data@example.org",
    "date": "2031-05-01",
    "licence": "CC0",
}

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    """A release of synthetic households, with so little noise that most intervals stay away from zero."""
    folder = tmp_path_factory.mktemp("tasks")
    document = parameters_2020("us")
    budgets = {
        name: {level: budget * BUDGET if name in TABULATIONS else 0 for level, budget in levels.items()}
        for name, levels in document["privacy_budget"].items()
    }
    config = Config.load(
        document | {"privacy_budget": budgets, "state_filter": STATES, "publication": PUBLICATION}
    )  # fmt: skip
    data = synth(folder / "data", 60_000, STATES, seed=4)
    counts = count(config, data, Settings(skip_validation=True))
    return noisy_release(config, counts, folder / "release", "0f0e0d0c-0000-4000-8000-000000000000")


@pytest.fixture(scope="session")
def estimates(release):
    return phsafe.estimate(release)


@pytest.fixture(scope="session")
def report(release, estimates) -> Path:
    return phsafe.report(release, release.path.parent / "report.html", estimates=estimates)


def pick(page: Page, label: str, option: str) -> None:
    page.get_by_role("combobox", name=label, exact=True).first.select_option(label=option)


def spec(estimates, name):
    return next(table for table in estimates.config.catalog.tables if table.name == name)


def values(estimates, table: str, region: str, iteration: str = "*") -> list[tuple[float, ...]]:
    frame = estimates.table(table, region=region, iteration=iteration)
    return list(frame.select("ESTIMATE", "LOWER_90", "UPPER_90", "STD_ERROR").iter_rows())


def download(page: Page, button: Locator) -> tuple[str, bytes]:
    with page.expect_download() as started:
        button.click()
    return started.value.suggested_filename, Path(started.value.path()).read_bytes()


def number(text: str) -> float:
    return float(re.sub("[^0-9.−-]", "", text).replace("−", "-"))


def test_find_a_figure_with_its_interval(report, estimates, open_page):
    page = open_page(report)
    for typed, found in (("wyo", "Wyoming"), ("asian", "Asian alone")):
        page.get_by_label("Search region, group or line").fill(typed)
        page.get_by_role("button", name=found).click()
    expect(page.get_by_text("Wyoming: Asian alone")).to_be_in_viewport()
    page.get_by_label("Search region, group or line").fill("grandchild")
    page.keyboard.press("Enter")
    row = page.get_by_role("row", name=re.compile("^Grandchild"))
    expect(row).to_be_in_viewport()
    table = spec(estimates, "PH3")
    line = [x.label for x in table.shell].index("Grandchild")
    cell = values(estimates, "PH3", "WY", "D")[line][:3]
    estimate, interval = rounded_texts(cell, table)
    assert row.get_by_role("cell").nth(0).inner_text().split()[-1] == estimate
    assert row.get_by_role("cell").nth(1).inner_text() == interval
    page.get_by_label("Search region, group or line").fill("no such place")
    expect(page.get_by_text("Nothing found.")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Compare with another region or group").click()
    expect(page.get_by_text("Total: Wyoming minus")).to_be_in_viewport()
    expect(page.get_by_text("PH1 Average Household Size by Age, Asian alone", exact=True)).to_be_in_viewport()


@pytest.mark.parametrize(
    ("typed", "where", "table"),
    [
        ("children in Wyoming", "Wyoming: Total population", "PH3"),
        ("average household size of Native Hawaiians in Oregon", "Oregon: Native Hawaiian", "PH1"),
        ("black kids, West Virginia", "West Virginia: Black or African American alone", "PH3"),
    ],
)
def test_search_as_one_would_ask(report, open_page, typed, where, table):
    """The first result has the region, the group and the line that were asked for."""
    page = open_page(report)
    page.get_by_label("Search region, group or line").fill(typed)
    page.keyboard.press("Enter")
    expect(page.locator("#where")).to_contain_text(where)
    expect(page.locator(f'[data-table="{table}"] tr.found')).to_be_in_viewport()
    expect(page.locator(f'[data-table="{table}"] tr.found')).to_contain_text("Total")


def expected_difference(first, second, widen: float):
    """Zou and Donner's interval of a difference: distances to the bounds add up like standard errors."""
    (a, low_a, high_a), (b, low_b, high_b) = first[:3], second[:3]
    lower, upper = math.hypot(a - low_a, high_b - b), math.hypot(high_a - a, b - low_b)
    return a - b, a - b - widen * lower, a - b + widen * upper


def is_large(row, who: str) -> bool:
    """Whether the interval of a cell is further from zero than its margin of error."""
    lower, upper = (float(row[f"{who}_{name}"]) for name in ("LOWER_90", "UPPER_90"))
    return lower > (upper - lower) / 2


def test_compare_two_states(report, estimates, open_page):
    page = open_page(report)
    page.get_by_role("link", name="Compare", exact=True).click()
    pick(page, "First: region", "Vermont")
    pick(page, "Second: region", "Wyoming")
    first, second = values(estimates, "PH1", "VT"), values(estimates, "PH1", "WY")
    widen = math.sqrt(len(STATES) / (len(STATES) - 1))
    section = page.get_by_role("region", name="Compare two regions or groups")
    rows = section.get_by_role("row").all()[1:]
    for row, a, b in zip(rows, first, second, strict=True):
        d, lower, upper = expected_difference(a, b, widen)
        verdict = "more than noise" if lower > 0 or upper < 0 else "could be noise"
        shown = row.get_by_role("cell").all_inner_texts()
        assert shown[3] == verdict
        assert number(shown[2].split(" (")[0]) == pytest.approx(d, abs=(upper - lower) / 16 + 1e-9)
    expect(section.get_by_text("Vermont minus Wyoming is")).to_be_visible()
    pick(page, "Second: region", "Vermont")
    pick(page, "Second: race or ethnicity", "B  Black or African American alone")
    pick(page, "Table", "PH1 Average Household Size by Age")
    expect(section.get_by_text("Total population minus Black or African American alone is")).to_be_visible()
    page.get_by_role("combobox", name="Table").nth(1).select_option("PH2")
    expect(section.get_by_text("PH2 is not published for Vermont: Black or African American alone.")).to_be_visible()


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (("VT", "*"), ("WY", "*"), len(STATES)),
        (("CA", "A"), ("NV", "A"), len(STATES)),
        (("US", "*"), ("RI", "*"), math.inf),
        (("HI", "B"), ("HI", "G"), len("ABCDEFG")),
        (("CA", "*"), ("CA", "H"), math.inf),
    ],
)
def test_the_interval_of_a_difference_is_not_shorter_than_that_of_the_joint_fit(
    report, estimates, open_page, first, second, together
):
    """Except for counts close to zero: the page takes into account that neither count is negative."""
    names = {"VT": "Vermont", "WY": "Wyoming", "CA": "California", "NV": "Nevada", "RI": "Rhode Island", "HI": "Hawaii"}
    groups = {"*": "Total population", "A": "A  White alone", "B": "B  Black or African American alone",
              "G": "G  Two or more races", "H": "H  Hispanic or Latino"}  # fmt: skip
    widen = 1 if together == math.inf else math.sqrt(together / (together - 1))
    page = open_page(report)
    for label, (region, iteration) in (("First", first), ("Second", second)):
        select = page.get_by_role("combobox", name=f"{label}: region")
        if region == "US":
            select.select_option("USA 1")
        else:
            select.select_option(label=names[region])
        pick(page, f"{label}: race or ethnicity", groups[iteration])
    for table in ("PH1", "PH3"):
        page.get_by_role("combobox", name="Table").nth(1).select_option(table)
        name, content = download(page, page.get_by_role("button", name="CSV: download the comparison"))
        assert name.endswith(".csv")
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        cells = zip(values(estimates, table, *first), values(estimates, table, *second), strict=True)
        for row, (a, b) in zip(rows, cells, strict=True):
            d, lower, upper = expected_difference(a, b, widen)
            shown = [float(row[name]) for name in ("DIFFERENCE", "LOWER_90", "UPPER_90")]
            whole = [d, math.floor(lower), math.ceil(upper)] if table == "PH3" else [d, lower, upper]
            assert shown == pytest.approx(whole, abs=1e-6)
        inside = [row for row in rows if is_large(row, "FIRST") and is_large(row, "SECOND")]
        assert inside
        for row in inside:
            cells = [f"{table}[{region}, {group}, {row['CELL']}]" for region, group in (first, second)]
            fitted = estimates.interval(" - ".join(cells))
            assert float(row["DIFFERENCE"]) == pytest.approx(fitted.estimate, abs=1e-6)
            assert float(row["UPPER_90"]) - float(row["LOWER_90"]) >= 0.99 * (fitted.upper - fitted.lower), cells


def test_add_three_states(report, estimates, open_page):
    page = open_page(report)
    page.get_by_role("link", name="Add up", exact=True).click()
    expect(page.get_by_text("Choose at least two regions.")).to_be_visible()
    for state in ("California", "Oregon", "Washington"):
        page.get_by_role("checkbox", name=state).check()
    section = page.get_by_role("region", name="Add up regions")
    expect(section.get_by_text("in California, Oregon and Washington together:")).to_be_visible()
    parts = [values(estimates, "PH2", state) for state in ("CA", "OR", "WA")]
    sums = [tuple(sum(part[i][j] for part in parts) for j in range(3)) for i in range(len(parts[0]))]
    for row, cell in zip(section.get_by_role("row").all()[1:], sums, strict=True):
        assert tuple(row.get_by_role("cell").all_inner_texts()) == rounded_texts(cell, spec(estimates, "PH2"))
    command = section.get_by_text("phsafe interval RELEASE").inner_text()
    fitted = estimates.interval(re.search('"(.*)"', command)[1])
    assert fitted.estimate == sums[0][0]
    assert sums[0][1] <= fitted.lower and fitted.upper <= sums[0][2]
    _, content = download(page, section.get_by_role("button", name="CSV"))
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert [tuple(int(row[name]) for name in ("SUM", "LOWER_90", "UPPER_90")) for row in rows] == sums


@pytest.mark.parametrize(
    ("options", "command"),
    [({"target": "truncated"}, "phsafe interval RELEASE --target truncated"), ({"method": "independent"}, "")],
)
def test_commands_fit_the_tables(release, open_page, tmp_path, options, command, phsafe_command):
    """The command has the target of the tables. The independent method has no command, and its errors are unrelated."""
    tables = phsafe.estimate(release, **options)
    page = open_page(phsafe.report(release, tmp_path / "r.html", estimates=tables), "#add&add=STATE+06&add=STATE+41")
    shown = page.locator(".command").all_inner_texts()
    assert len(shown) == (2 if command else 0) and all(text.startswith(f'{command} "') for text in shown)
    expect(page.get_by_text("as if their errors were unrelated")).to_be_visible()
    if command:
        words = shlex.split(shown[1].replace("RELEASE", str(release.path)))
        outcome = phsafe_command(*words[1:], "--json")
        total = number(page.locator("#add-table tbody td").first.inner_text())
        assert json.loads(outcome.out)["ESTIMATE"] == pytest.approx(total, rel=1e-2)
    else:
        pick(page, "First: region", "Vermont")
        pick(page, "Second: region", "Wyoming")
        d, lower, upper = expected_difference(values(tables, "PH1", "VT")[0], values(tables, "PH1", "WY")[0], 1)
        _, content = download(page, page.get_by_role("button", name="CSV: download the comparison"))
        row = next(csv.DictReader(io.StringIO(content.decode())))
        difference = [float(row[name]) for name in ("DIFFERENCE", "LOWER_90", "UPPER_90")]
        assert difference == pytest.approx([d, lower, upper], abs=1e-6)


@pytest.fixture(scope="session")
def files(estimates, tmp_path_factory) -> Path:
    """The files with names that `phsafe estimate` writes."""
    return estimates.write(tmp_path_factory.mktemp("files") / "tables") / "tables"


def rows_of(file: Path, *keep: str) -> str:
    """The header of a CSV file, and those lines that begin with one of these texts."""
    head, *rows = file.read_text().splitlines(keepends=True)
    return "".join([head, *(row for row in rows if row.startswith(keep))])


@pytest.mark.filterwarnings("ignore:Workbook contains no default style")
@pytest.mark.parametrize("table", ["PH1", "PH3"])
def test_download_tables(report, estimates, files, open_page, table):
    page = open_page(report)
    pick(page, "Region", "Wyoming")
    file = files / f"{table}.csv"
    name, content = download(page, page.get_by_role("button", name=f"All regions and groups (CSV): download {table}"))
    assert (name, content) == (f"{table}.csv", file.read_bytes())
    shown = rows_of(file, "STATE,56,Wyoming,*")
    name, content = download(page, page.get_by_role("button", name=f"CSV: download {table}", exact=True))
    assert (name, content.decode()) == (f"{table.lower()}-wyoming-all.csv", shown)
    name, content = download(page, page.get_by_role("button", name=f"Excel: download {table}", exact=True))
    book = openpyxl.load_workbook(io.BytesIO(content))
    head, *rows = book["Data"].iter_rows(values_only=True)
    expected = list(csv.reader(io.StringIO(shown)))
    assert name.endswith(".xlsx") and list(head) == expected[0]
    numbers = [i for i, column in enumerate(head) if column == "CELL" or column in VALUES]
    for row, fields in zip(rows, expected[1:], strict=True):
        assert [float(field) if i in numbers else field or None for i, field in enumerate(fields)] == list(row)
    about = " ".join(str(row[0]) for row in book["About"].iter_rows(values_only=True))
    assert "Bureau of Examples (2031)" in about and estimates.release_id in about


def test_download_charts(report, files, open_page):
    page = open_page(report, color_scheme="dark")
    figures = page.locator("figure").all()
    assert len(figures) == 3
    for figure in figures:
        name, content = download(page, figure.get_by_role("button", name="SVG"))
        root = ElementTree.fromstring(content)
        text = " ".join(root.itertext())
        assert name.endswith(".svg") and "PH1 Average Household Size by Age: Total" in text
        assert "Bureau of Examples (2031)" in text
        # It needs no style sheet, and is light even if the page is dark.
        assert root[0].get("fill") == "#ffffff" and not any(node.get("class") for node in root.iter())
        name, content = download(page, figure.get_by_role("button", name="PNG"))
        picture = Image.open(io.BytesIO(content)).convert("RGB")
        assert picture.size[0] >= 1800 and picture.getpixel((2, 2)) == (255, 255, 255)
        assert len(picture.getcolors(100_000)) > 20
    _, content = download(page, figures[1].get_by_role("button", name="CSV"))
    totals = [line for line in rows_of(files / "PH1.csv", "STATE").splitlines() if ",*,Total population,1," in line]
    assert content.decode().splitlines()[1:] == totals and len(totals) == len(STATES)


def test_cite(report, release, open_page):
    page = open_page(report, permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="Cite", exact=True).click()
    section = page.get_by_role("region", name="Cite and contact")
    citation = f"Bureau of Examples (2031). Households 2030. Release {release.release_id}. Published 2031-05-01."
    expect(section.get_by_text(citation)).to_be_in_viewport()
    for text in ("CC0", "data@example.org", "2031-05-01"):
        expect(section.get_by_text(text, exact=True)).to_be_visible()
    section.get_by_role("button", name="Copy citation").click()
    expect(section.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == citation


def test_explain_a_flag(report, estimates, open_page):
    page = open_page(report)
    flagged = estimates.tables["PH3"].filter(pl.col("UPPER_90") - pl.col("LOWER_90") > pl.col("ESTIMATE"))
    expect(page.get_by_text(f"marks an {FLAG_TEXT}").first).to_be_in_viewport()
    expect(page.get_by_role("link", name="How to read the numbers")).to_be_in_viewport()
    region, iteration = flagged.select("REGION_ID", "ITERATION_CODE").row(-1)
    page.goto(f"{report.as_uri()}#tables&region=STATE+{region}&group={iteration}&table=PH3")
    page.get_by_role("link", name=FLAG_TEXT).first.click()
    heading = page.get_by_role("heading", name=f"What {FLAG} means")
    expect(heading).to_be_in_viewport()
    expect(page.get_by_text("Use a larger region or group, or add up several counts.")).to_be_in_viewport()
