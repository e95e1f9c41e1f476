"""The report in Chromium: choosing groups, phone, print, both themes, accessibility, and hostile text."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from playwright.sync_api import Page, expect

import phsafe
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.display.numbers import rounded_texts, texts
from phsafe.model.levels import Level
from phsafe.model.schema import STATES as STATE_NAMES
from phsafe.model.spec import Catalog
from phsafe.releases.release_folder import Release

from ..reports.conftest import PARTIAL, config_of, make_release  # noqa: TID252

#: Counts, counts by race, and an average.
TABULATIONS = ("PH2", "PH3", "PH4", "PH5_denom")
#: Enough states for a map.
STATES = ["06", "11", "15", "32", "44", "50", "54", "56"]

pytestmark = pytest.mark.needs("chromium")


@pytest.fixture(scope="session")
def release(tmp_path_factory):
    return make_release(
        config_of(keep=lambda name, _: name in TABULATIONS, state_filter=STATES),
        tmp_path_factory.mktemp("report") / "release",
    )


@pytest.fixture(scope="session")
def estimates(release):
    return phsafe.estimate(release, "independent")


@pytest.fixture(scope="session")
def report(release, estimates) -> Path:
    return phsafe.report(release, release.path.parent / "report.html", estimates=estimates)


def cells(page: Page, table: str) -> list[list[str]]:
    return page.locator(f'[data-table="{table}"] tbody tr').evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].slice(0, 2).map(cell => cell.innerText.trim()))"
    )


def test_without_javascript_the_page_shows_the_same_tables(report, open_page):
    plain, scripted = open_page(report, java_script_enabled=False), open_page(report)
    assert plain.locator("#where").inner_text() == scripted.locator("#where").inner_text()
    shown = "nodes => nodes.map(node => node.outerHTML.replace(/<svg.*?<\\/svg>/g, ''))"
    for name in (".card table", "#read", "#cite blockquote p", "#privacy"):
        without, with_script = (page.locator(name).evaluate_all(shown) for page in (plain, scripted))
        assert without == with_script, name
    geometry = "nodes => nodes.flatMap(n => ['x', 'width'].map(a => Number(n.getAttribute(a))))"
    before, after = (page.locator("#tables svg rect").evaluate_all(geometry) for page in (plain, scripted))
    assert before == pytest.approx(after, abs=0.02)
    assert plain.locator("form").evaluate_all("forms => forms.every(form => form.hidden)")
    for text in (
        "Enable JavaScript to choose",
        "the CSV files in tables/",
        "Comparing needs JavaScript",
        "Charts need JavaScript",
    ):
        assert text in plain.locator("main").inner_text()


@pytest.mark.parametrize("all_digits", [False, True])
def test_every_group_can_be_chosen(report, estimates, open_page, all_digits):
    page = open_page(report)
    page.get_by_label("Show all digits").set_checked(all_digits)
    table = next(t for t in estimates.config.catalog.tables if t.name == "PH3")
    for region, iteration in (("STATE 06", "*"), ("STATE 56", "E"), ("USA 1", "H")):
        page.locator("select[name=region]").select_option(region)
        page.locator("select[name=group]").select_option(iteration)
        region_type, code = region.split()
        frame = estimates.tables["PH3"].filter(REGION_TYPE=region_type, REGION_ID=code, ITERATION_CODE=iteration)
        values = list(frame.select("ESTIMATE", "LOWER_90", "UPPER_90").iter_rows())
        expected = [list((texts if all_digits else rounded_texts)(cell, table)) for cell in values]
        found = [[e.split()[-1], interval] for e, interval in cells(page, "PH3")]
        assert found == expected
        full = page.locator('[data-table="PH3"] td span[title]:not(.mark)').evaluate_all("n => n.map(x => x.title)")
        assert full == [text for cell in values for text in texts(cell, table)]
        flags = page.locator('[data-table="PH3"] tr.wide').count()
        assert flags == frame.filter(frame["UPPER_90"] - frame["LOWER_90"] > frame["ESTIMATE"]).height
        published = iteration == "*"
        assert page.locator('[data-table="PH2"] table').is_visible() == published
        assert page.locator('[data-table="PH2"] .absent').is_hidden() == published
        assert page.locator('[data-table="PH2"] .downloads').is_visible() == published


def test_very_precise_averages_fit_into_a_tile(release, estimates, open_page, tmp_path):
    precise = estimates.tables["PH5"].with_columns(
        ESTIMATE=pl.lit(2.7087834), LOWER_90=pl.lit(2.7087824), UPPER_90=pl.lit(2.7087844)
    )
    sharp = replace(estimates, tables=estimates.tables | {"PH5": precise})
    page = open_page(phsafe.report(release, tmp_path / "r.html", estimates=sharp))
    page.locator("select[name=figure]").select_option("PH5 1")
    assert set(page.locator("#map-tiles .tile-value").all_text_contents()) == {"2.70878"}


def test_charts_show_any_line_and_the_map_leads_to_a_state(report, estimates, open_page):
    page = open_page(report)
    page.locator("select[name=figure]").select_option("PH3 4")
    page.locator("select[name=map-group]").select_option("B")
    frame = (
        estimates.tables["PH3"]
        .filter(REGION_TYPE="STATE", ITERATION_CODE="B", CELL=4)
        .sort("ESTIMATE", descending=True, maintain_order=True)
    )
    table = next(t for t in estimates.config.catalog.tables if t.name == "PH3")
    plotted = page.locator("#map-regions .plot title").all_text_contents()
    assert len(plotted) == len(STATES)
    for shown, row in zip(plotted, frame.iter_rows(named=True), strict=True):
        estimate, interval = texts((row["ESTIMATE"], row["LOWER_90"], row["UPPER_90"]), table)
        assert shown == f"{STATE_NAMES[row['REGION_ID']]}: {estimate}, 90 % interval {interval}"
    tiles = page.locator("#map-tiles a")
    assert sorted(tiles.evaluate_all("n => n.map(a => a.getAttribute('aria-label'))")) == sorted(plotted)
    wide = frame.filter(frame["UPPER_90"] - frame["LOWER_90"] > frame["ESTIMATE"]).height
    assert page.locator("#map-tiles a .hatched").count() == wide
    assert "Colour: the estimate" in page.locator("#map-tiles").inner_text()
    page.locator('#map-tiles a[data-region="STATE 56"]').focus()
    page.keyboard.press("Enter")
    expect(page.locator("#where")).to_have_text("Wyoming: Black or African American alone")
    page.locator("select[name=figure]").select_option("PH2 2")
    expect(page.locator("#map-regions")).to_have_text("PH2 is not published for Black or African American alone.")


def test_the_legend_gives_the_range_of_every_colour(report, open_page):
    page = open_page(report, "#map&figure=PH5+1")
    shades = page.locator("#map-tiles a rect").evaluate_all("n => n.map(r => r.getAttribute('class'))")
    used = sorted({shade for shade in shades if shade != "hatched"})
    legend = page.locator("#map-tiles svg > rect").evaluate_all("n => n.map(r => r.getAttribute('class'))")
    assert legend == [*used, "hatched"]
    assert page.locator("#map-tiles svg > text").filter(has_text=" to ").count() == len(used) + 1


def test_choices_are_in_the_address_and_survive_a_reload(report, open_page):
    page = open_page(report)
    page.get_by_role("combobox", name="Region", exact=True).select_option("Wyoming")
    page.get_by_role("combobox", name="Race or ethnicity", exact=True).first.select_option("E")
    page.get_by_role("combobox", name="First: region").select_option("Hawaii")
    for state in ("California", "Nevada"):
        page.get_by_role("group", name="Regions").get_by_label(state).check()
    page.get_by_role("combobox", name="Figure").select_option("PH3 9")
    page.get_by_label("Show all digits").check()
    parts = ("#where", "#compare-result", "#add-result", "#map-where", '[data-table="PH3"]')
    before = [page.locator(name).all_inner_texts() for name in parts]
    assert "region=STATE+56" in page.url
    page.reload()
    assert [page.locator(name).all_inner_texts() for name in parts] == before
    page.get_by_role("link", name="Privacy", exact=True).first.click()
    expect(page.get_by_role("heading", name="Privacy", exact=True)).to_be_in_viewport()
    assert "#privacy&" in page.url and "region=STATE+56" in page.url
    other = open_page(report, "#" + page.url.split("#")[1])
    assert [other.locator(name).all_inner_texts() for name in parts] == before
    nonsense = open_page(report, "#tables&region=STATE+99&group=%3Cscript%3E&figure=&add=x&nothing=1")
    assert nonsense.locator("#where").inner_text() == open_page(report).locator("#where").inner_text()


def test_everything_can_be_reached_by_keyboard(report, open_page):
    page = open_page(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(120):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.name || document.activeElement.id || document.activeElement.tagName")
        )
    assert {"search", "region", "group", "table", "digits", "first", "add", "figure", "theme", "a", "BUTTON"} <= reached
    page.locator("#theme").focus()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("Enter")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (1280, "dark")])
def test_the_report_is_accessible_and_fits_the_window(report, open_page, assert_accessible, width, scheme):
    page = open_page(report, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.get_by_label("Search region").fill("a")
    for state in ("California", "Nevada"):
        page.get_by_role("group", name="Regions").get_by_label(state).check()
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_prints_on_paper(report, open_page, tmp_path):
    page = open_page(report)
    expect(page.get_by_text("Contents", exact=True)).to_be_hidden()
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("nav").is_hidden()
    expect(page.get_by_text("Contents", exact=True)).to_be_visible()
    assert page.locator(".downloads").first.is_hidden()
    # Nothing was added up, so neither the section nor its line in the contents is printed.
    assert page.locator("#add").is_hidden() and page.locator(".contents a[href='#add']").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    paper = page.pdf(prefer_css_page_size=True)
    pages = paper.count(b"/Type /Page\n") or paper.count(b"/Type /Page ")
    assert 6 <= pages <= 12


@pytest.mark.parametrize("name", PARTIAL)
def test_partial_releases_open_without_errors(name, open_page, tmp_path):
    release = make_release(config_of(**PARTIAL[name]), tmp_path / "release")
    page = open_page(phsafe.report(release, tmp_path / "report.html"))
    assert page.locator(".card table:not([hidden])").count() >= 1
    page.set_viewport_size({"width": 390, "height": 800})
    page.get_by_label("Search region").fill("total")
    page.keyboard.press("Enter")
    assert page.locator("#compare-result, #map figcaption").evaluate_all("n => n.every(x => x.textContent)")


def test_a_level_that_only_one_table_has(open_page, tmp_path):
    """Counties of PH7: comparisons and sums start with a table that has them, charts show states for the others."""
    catalog = phsafe.CENSUS_2020.to_document()
    regions = {"44001": "Bristol", "44003": "Kent", "44005": "Newport"}
    county = {"key": "county", "label": "County", "region_type": "COUNTY", "columns": ["TABBLKST", "TABBLKCOU"]}
    catalog["geographies"].append(county | {"covers": False, "puerto_rico": False, "regions": regions})
    catalog["levels"].append("county_*")
    document = parameters_2020("us") | {"state_filter": ["44", "56"]}
    for name, budgets in document["privacy_budget"].items():
        budgets["county_*"] = Decimal("0.1") if name == "PH7" else 0
    (tmp_path / "counties.json").write_text(json.dumps(catalog))
    config = Config.load(document, tmp_path / "counties.json")
    release = make_release(config, tmp_path / "release", people=2000)
    page = open_page(phsafe.report(release, tmp_path / "r.html", estimates=phsafe.estimate(release, "independent")))
    expect(page.locator("#compare-result")).to_contain_text("Bristol minus Kent is")
    for name in regions.values():
        page.get_by_role("checkbox", name=name).check()
    expect(page.locator("#add-result")).to_contain_text("in Bristol, Kent and Newport together")
    assert page.locator("#map-regions .plot title").count() == 2
    page.locator("select[name=figure]").select_option("PH7 1")
    assert page.locator("#map-regions .plot title").count() == 3


PAYLOADS = [
    "<script>document.title='run'</script>",
    "</script><script>document.title='run'</script>",
    "</style><script>document.title='run'</script>",
    "</title><img src=x onerror=\"document.title='run'\">",
    "<svg onload=\"document.title='run'\">",
    "--><script>document.title='run'</script>",
    "javascript:document.title='run'",
    "\u2028</scr\u0000ipt>\u202e",
]


def evil(catalog: Catalog) -> Catalog:
    """Return a catalog in which every label and title is a payload."""
    bad = "".join(PAYLOADS)
    tables = tuple(
        replace(t, title=bad, universe=bad, shell=tuple(replace(line, label=bad) for line in t.shell))
        for t in catalog.tables
    )
    levels = []
    for level in catalog.levels:
        iterations = tuple(replace(i, label=bad) for i in level.iteration_level.iterations)
        regions = tuple((code, bad) for code, _ in level.geography.regions)
        levels.append(
            Level(
                replace(level.geography, regions=regions, label=bad),
                replace(level.iteration_level, iterations=iterations),
            )
        )
    return Catalog(tables, tuple(levels))


def test_hostile_labels_and_manifests_run_no_scripts(release, estimates, open_page, tmp_path):
    """Payloads in the manifest, the title, the catalog's labels and the diagnostics appear as text only."""
    manifest = release.manifest | {
        "release_id": "".join(PAYLOADS),
        "versions": dict(zip(PAYLOADS, reversed(PAYLOADS), strict=True)),
    }
    config = replace(release.config, catalog=evil(release.config.catalog))
    tables = replace(
        estimates, config=config, release_id="", diagnostics={"noise_test": {"verdict": "".join(PAYLOADS)}}
    )
    page = open_page(
        phsafe.report(
            Release(release.path, config, manifest),
            tmp_path / "r.html",
            estimates=tables,
            title="".join(PAYLOADS),
            force=True,
        )
    )
    assert page.title().startswith("<script>")
    assert page.locator("main script, main img, main [onload], main [onerror]").count() == 0
    page.locator("select[name=group]").select_option("B")
    page.locator("select[name=map-group]").select_option("B")
    page.get_by_label("Search region").fill("script")
    for section in ("#published", "#tables", "#found", "#compare", "#map", "#quality", "#provenance"):
        assert PAYLOADS[0] in page.locator(section).inner_text(), section


def test_the_content_security_policy_blocks_injected_markup(report, browser, tmp_path):
    """Even a tampered file runs no other script, applies no other style and makes no request."""
    injected = (
        "<script>document.title='run'</script><img src=x onerror=\"document.title='run'\">"
        "<p id=evil style='color: rgb(1, 2, 3)'>x</p><style>body { opacity: .5 }</style>"
        "<script src='data:text/javascript,document.title=1'></script><form action='https://example.org'></form>"
    )
    path = tmp_path / "changed.html"
    path.write_text(report.read_text().replace("</main>", f"{injected}</main>"))
    context = browser.new_context()
    page = context.new_page()
    refused = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(path.as_uri())
    page.wait_for_timeout(200)
    assert "release report" in page.title()
    assert page.evaluate("getComputedStyle(document.getElementById('evil')).color") != "rgb(1, 2, 3)"
    assert page.evaluate("getComputedStyle(document.body).opacity") == "1"
    assert sum("Content Security Policy" in text for text in refused) >= 5
    expect(page.get_by_label("Search region")).to_be_visible()
    context.close()
