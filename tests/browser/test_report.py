"""The report in Chromium: choosing groups, phone, print, both themes, accessibility, and hostile text."""

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import phsafe
from phsafe.model.levels import Level
from phsafe.model.spec import Catalog
from phsafe.releases.release_folder import Release

from ..reports.conftest import config_of, make_release  # noqa: TID252

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


def test_without_javascript_the_page_shows_the_same(report, open_page):
    plain, scripted = open_page(report, java_script_enabled=False), open_page(report)
    for name in ("#where", "#map-where", "#map-scale", ".tiles", ".cards"):
        without, with_script = (page.locator(name).inner_text() for page in (plain, scripted))
        assert without == with_script, name
    shapes = "#tables svg rect, #map svg rect"
    geometry = "nodes => nodes.flatMap(n => ['x', 'width'].map(a => Number(n.getAttribute(a))))"
    assert plain.locator("#choose").is_hidden()
    assert scripted.locator("#choose").is_visible()
    before = plain.locator(shapes).evaluate_all(geometry)
    after = scripted.locator(shapes).evaluate_all(geometry)
    assert before == pytest.approx(after, abs=0.02)
    shades = "nodes => nodes.map(n => n.className)"
    assert plain.locator(".tiles li").evaluate_all(shades) == scripted.locator(".tiles li").evaluate_all(shades)


def test_every_group_can_be_chosen(report, estimates, open_page):
    page = open_page(report)
    for region, iteration in (("STATE 06", "*"), ("STATE 56", "E"), ("USA 1", "H")):
        page.locator("#choose select[name=region]").select_option(region)
        page.locator("#choose select[name=iteration]").select_option(iteration)
        region_type, code = region.split()
        frame = estimates.tables["PH3"].filter(REGION_TYPE=region_type, REGION_ID=code, ITERATION_CODE=iteration)
        expected = [
            [f"{e:,}", f"{low:,} – {high:,}"]
            for e, low, high in frame.select("ESTIMATE", "LOWER_90", "UPPER_90").iter_rows()
        ]
        found = [[e.split()[-1], interval] for e, interval in cells(page, "PH3")]
        assert found == expected
        flags = page.locator('[data-table="PH3"] tr.wide').count()
        assert flags == frame.filter(frame["UPPER_90"] - frame["LOWER_90"] > frame["ESTIMATE"]).height
        published = iteration == "*"
        assert page.locator('[data-table="PH2"] table').is_visible() == published
        assert page.locator('[data-table="PH2"] .absent').is_hidden() == published


def test_the_map_follows_its_controls_and_links_to_a_state(report, estimates, open_page):
    page = open_page(report)
    page.locator("#choose-map select[name=measure]").select_option("PH5 2")
    page.locator("#choose-map select[name=iteration]").select_option("B")
    frame = estimates.tables["PH5"].filter(REGION_TYPE="STATE", ITERATION_CODE="B", CELL=2)
    expected = {row["REGION_ID"]: f"{row['ESTIMATE']:.2f}" for row in frame.iter_rows(named=True)}
    for code, value in expected.items():
        expect(page.locator(f'.tiles a[data-region="STATE {code}"] .value')).to_have_text(value)
    page.locator("#map summary").click()
    assert page.locator("#map .list tbody tr").count() == len(STATES)
    page.locator('.tiles a[data-region="STATE 56"]').focus()
    page.keyboard.press("Enter")
    expect(page.locator("#where")).to_have_text("Wyoming: Black or African American alone")


def test_everything_can_be_reached_by_keyboard(report, open_page):
    page = open_page(report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.name || document.activeElement.id || document.activeElement.tagName")
        )
    assert {"region", "iteration", "measure", "theme", "A", "SUMMARY"} <= reached
    page.locator("#theme").focus()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("Enter")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (1280, "dark")])
def test_the_report_is_accessible_and_fits_the_window(report, open_page, assert_accessible, width, scheme):
    page = open_page(report, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.locator("#map details").evaluate("node => { node.open = true }")
    assert_accessible(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_it_prints_on_paper(report, open_page, tmp_path):
    page = open_page(report)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("nav").is_hidden()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    paper = page.pdf(prefer_css_page_size=True)
    pages = paper.count(b"/Type /Page\n") or paper.count(b"/Type /Page ")
    assert 3 <= pages <= 9


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
    page.locator("#choose select[name=iteration]").select_option("B")
    page.locator("#choose-map select[name=iteration]").select_option("B")
    for section in ("#published", "#tables", "#map", "#quality", "#provenance"):
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
    expect(page.locator("#choose")).to_be_visible()
    context.close()
