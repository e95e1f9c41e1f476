"""The report page: it is true to the release, whether complete or partial, and safe with hostile input."""

import html
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import polars as pl
import pytest

import phsafe
from phsafe.configs.line_sums import table_levels
from phsafe.errors import PHSafeError
from phsafe.model.exact_numbers import text
from phsafe.privacy.budgets import budget
from phsafe.releases.manifest import MANIFEST, hash_file

from .conftest import PARTIAL, config_of, make_release


class PageParser(HTMLParser):
    """The texts, tags and attributes of a page, without its script and style."""

    def __init__(self):
        super().__init__()
        self.skipping, self.texts, self.tags, self.attributes = 0, [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        self.skipping += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.skipping -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.skipping:
            self.texts.append(data)


def read(path):
    parser = PageParser()
    parser.feed(path.read_text("utf-8"))
    return parser


def words(path) -> str:
    return re.sub(r"\s+", " ", " ".join(read(path).texts))


def data(path) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())[1])


def test_page_contains_every_finished_cell(two_page, two_estimates):
    found = {
        (name, group, line, *cell)
        for name, table in data(two_page)["tables"].items()
        for group, cells in table["groups"].items()
        for (line, _, _), cell in zip(table["lines"], cells, strict=True)
    }
    expected = {
        (name, f"{row[0]} {row[1]} {row[2]}", row[3], *row[5:9])
        for name, frame in two_estimates.tables.items()
        for row in frame.iter_rows()
    }
    assert found == expected


def test_losses_margins_and_hashes_match_the_release(two, two_page):
    shown, costs = words(two_page), budget(two.config)
    assert f"Unbounded {text(costs.loss.unbounded)}".lower() in shown.lower().replace(
        "one person's record is added or removed ", ""
    )
    for amount in (costs.loss.unbounded, costs.loss.bounded):
        assert text(amount) in shown
    assert "11.42" in shown  # ε of ρ = 1.257281 at δ = 1e-10, rounded up
    for row in costs.rows:
        assert text(row.event.loss.unbounded) in shown
    for path in two.path.rglob("*.*"):
        assert hash_file(path) in shown
    assert two.release_id in shown


def test_same_release_gives_the_same_page(two, two_estimates, two_page, tmp_path):
    again = phsafe.report(two, tmp_path / "again.html", estimates=two_estimates)
    assert again.read_bytes() == two_page.read_bytes()


def test_page_is_self_contained_and_has_no_inline_handlers(two_page):
    page, parsed = two_page.read_text(), read(two_page)
    assert not [name for name in parsed.attributes if name.startswith("on") or name in ("style", "src", "srcset")]
    assert not {"link", "img", "iframe", "object", "embed", "base"} & set(parsed.tags)
    # Names of XML formats, which are never opened: of SVG, and of Excel files.
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg|schemas\.(openxmlformats\.org|microsoft\.com)/)", page)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    assert html.unescape(policy).startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert page.count("MIT License") == 2  # of the bundled library and the one inside it
    # Pictures come from the page's own script; everything else is its own or nothing.
    assert re.sub("'sha256-[^']*'", "HASH", html.unescape(policy)) == (
        "default-src 'none'; script-src HASH; style-src HASH; img-src blob:; base-uri 'none'; form-action 'none'"
    )


@pytest.mark.parametrize("name", PARTIAL)
def test_partial_releases_give_complete_pages(name, partial, tmp_path):
    release = partial(name)
    path = phsafe.report(release, tmp_path / "report.html")
    shown, estimates = words(path), phsafe.estimate(release)
    assert set(data(path)["tables"]) == set(estimates.tables)
    for table in release.config.catalog.tables:
        made = bool(table_levels(release.config, table))
        assert made == (table.name in estimates.tables)
        listed = re.search("Not among the finished tables: (.*?) How the privacy budget was spent", shown)
        assert (listed is not None and table.title in listed[1]) != made
    costs = budget(release.config)
    assert text(costs.loss.unbounded) in shown
    unit, other = ("ε", "ρ") if release.config.privacy == "puredp" else ("ρ", None)
    assert f"privacy loss {unit}" in shown
    assert other is None or other not in shown
    regions = set(data(path)["regions"])
    assert regions == {f"{kind} {code}" for kind, code in _regions(estimates)}
    assert "United States" not in shown or release.config.states[:2] == ("01", "02")
    assert ("Puerto Rico" in shown) == (name == "puerto rico")
    catalog = release.config.catalog
    for tabulation in catalog.truncation:
        assert (catalog.title(tabulation) in shown) == bool(release.config.levels_of(tabulation))


def _regions(estimates):
    for frame in estimates.tables.values():
        yield from frame.select("REGION_TYPE", "REGION_ID").iter_rows()


def test_tables_come_first_and_privacy_in_plain_language_before_its_figures(two_page):
    shown = two_page.read_text()
    sections = re.findall(r'<section id="(\w+)"', shown)
    assert sections[0] == "tables"
    assert sections.index("map") < sections.index("cite") < sections.index("privacy") < sections.index("budget")
    assert shown.index("What is promised") < shown.index("The privacy loss of the whole release")
    assert re.findall(r'<li><a href="#(\w+)">', re.search('<div class="contents">.*?</div>', shown)[0]) == sections


GIVEN = {
    "title": "Households 2030",
    "agency": "Bureau <of> Examples",
    "contact": "data@example.org",
    "date": "2031-05-01",
    "version": "2",
    "licence": "CC0",
}


def test_the_page_shows_who_publishes_it_and_how_to_cite_it(tmp_path):
    config = config_of(**PARTIAL["tight"], publication=GIVEN)
    release = make_release(config, tmp_path / "release")
    shown = words(phsafe.report(release, tmp_path / "r.html"))
    for stated in GIVEN.values():
        assert stated in shown
    assert f"Bureau <of> Examples (2031). Households 2030. Version 2. Release {release.release_id}." in shown
    assert "not given" not in shown[shown.index("To cite this release") : shown.index("What is promised")]
    assert "Another" in words(phsafe.report(release, tmp_path / "other.html", title="Another"))


def test_what_is_not_given_is_not_invented(two_page):
    shown = words(two_page)
    for name in ("Agency", "Date", "Version", "Licence", "Contact"):
        assert f"{name} not given" in shown


def test_truncation_is_stated_in_people(two, two_estimates, two_page):
    shown = words(two_page)
    for name, people in two_estimates.diagnostics["truncation"]["people"].items():
        table = name.split("_")[0]
        title = next(t.title for t in two.config.catalog.tables if t.name == table)
        pattern = rf"{table} {re.escape(title)} {two.config.tau[name]} about ([\d,]+) \(([\d,]+) – ([\d,]+)\)"
        stated = re.search(pattern, shown)
        assert stated, people
        estimate, lower, upper = (int(number.replace(",", "")) for number in stated.groups())
        step = (people["upper"] - people["lower"]) / 5
        assert people["lower"] - step < lower <= people["lower"] <= people["upper"] <= upper < people["upper"] + step
        assert abs(estimate - people["estimate"]) < step
    assert "add the others back" in shown and "contains the true value about nine times in ten" in shown


def test_the_whole_note_on_people_beyond_the_limit_is_shown(two, two_estimates, tmp_path):
    note = f"{'A sentence about measurements. ' * 20}The last sentence."
    diagnostics = two_estimates.diagnostics | {"truncation": {"people": {}, "about": note}}
    page = phsafe.report(two, tmp_path / "r.html", estimates=replace(two_estimates, diagnostics=diagnostics))
    assert note in words(page)


def test_people_beyond_the_limit_are_rounded_to_the_digits_that_mean_something(two, two_estimates, tmp_path):
    people = {"PH2": {"estimate": 305, "lower": 0, "upper": 993}}
    diagnostics = two_estimates.diagnostics | {"truncation": {"people": people, "about": "x"}}
    page = phsafe.report(two, tmp_path / "r.html", estimates=replace(two_estimates, diagnostics=diagnostics))
    assert "10 about 300 (0 – 1,000)" in words(page)


@pytest.mark.parametrize("options", [{"target": "truncated"}, {"method": "independent"}])
def test_a_page_of_truncated_tables_says_so_first(two, options, tmp_path):
    page = phsafe.report(two, tmp_path / "r.html", estimates=phsafe.estimate(two, **options))
    shown, joint = words(page), "target" in options
    lead = "Each number is an estimate. These tables count at most 10 people per household (6 people of the universe in"
    assert lead in shown and "true value" not in shown
    assert shown.count("leaves out the others") == 8
    assert "People beyond it" not in shown and "about 0" not in shown
    assert data(page)["interval"] == ("phsafe interval RELEASE --target truncated" if joint else "")
    assert ("interval from the joint fit" in shown) == ('id="add-command"' in page.read_text()) == joint


@pytest.mark.parametrize("people", [3, {"PH2": 3}, {"PH2": {"estimate": "<b>", "lower": 0, "upper": 1}}, {"PH2": {}}])
def test_hostile_numbers_of_people_are_not_shown(two, two_estimates, people, tmp_path):
    diagnostics = two_estimates.diagnostics | {"truncation": {"people": people, "about": "x"}}
    page = phsafe.report(two, tmp_path / "r.html", estimates=replace(two_estimates, diagnostics=diagnostics))
    assert "10 not given" in words(page) and not re.search(r"about [<\d]+ \(", words(page))


def test_a_page_about_the_nation_is_small(tmp_path):
    release = make_release(config_of(), tmp_path / "release", people=20_000)
    page = phsafe.report(release, tmp_path / "r.html", estimates=phsafe.estimate(release, "independent"))
    assert 400_000 < page.stat().st_size < 1_000_000


def test_flagged_cells_are_counted_correctly(two_page, two_estimates):
    frame = two_estimates.tables["PH3"].filter(REGION_TYPE="STATE", ITERATION_CODE="*")
    wide = frame.filter(pl.col("UPPER_90") - pl.col("LOWER_90") > pl.col("ESTIMATE")).height
    assert f"{wide:,} of {frame.height:,}" in words(two_page)


def test_estimates_are_read_from_their_folder(two, two_estimates, two_page, tmp_path, phsafe_command):
    for form in ("csv", "parquet"):
        folder = two_estimates.write(tmp_path / form, form)
        outcome = phsafe_command("report", two.path, tmp_path / f"{form}.html", "--estimates", folder)
        assert outcome.code == 0, outcome.err
        assert data(tmp_path / f"{form}.html") == data(two_page)
        assert "read from files that name this release" in words(tmp_path / f"{form}.html")
        assert hash_file(folder / f"PH1.{form}") in words(tmp_path / f"{form}.html")


def changed(folder, name, frame):
    frame.write_csv(folder / f"{name}.csv", separator="|")


def test_estimates_of_another_release_are_refused_with_every_reason(
    two, two_estimates, tmp_path, phsafe_command, partial
):
    folder = two_estimates.write(tmp_path / "tables")
    low = pl.col("UPPER_90") + 1
    changed(folder, "PH1", two_estimates.tables["PH1"].head(5))
    changed(folder, "PH3", two_estimates.tables["PH3"].with_columns(LOWER_90=low))
    (folder / "PH4.csv").write_text("nothing\n")
    outcome = phsafe_command("report", two.path, tmp_path / "r.html", "--estimates", folder)
    assert outcome.code == 1
    assert "PH1.csv: its rows don't match the config of the release" in outcome.err
    assert "PH3.csv: expected every estimate inside its interval, got" in outcome.err
    assert "PH4.csv: expected a finished table with REGION_TYPE" in outcome.err
    assert not (tmp_path / "r.html").exists()
    with pytest.raises(PHSafeError, match=r"expected tables estimated from release .*, got tables from another"):
        other = phsafe.estimate(partial("one table"))
        phsafe.report(two, tmp_path / "r.html", estimates=_renamed(other))
    outcome = phsafe_command("report", two.path, tmp_path / "r.html", "--estimates", tmp_path / "nowhere")
    assert outcome.code == 1
    assert "expected a folder of finished tables" in outcome.err


def _renamed(estimates):
    return replace(estimates, release_id="another")


def test_hostile_diagnostics_are_refused_or_shown_as_text(two, two_estimates, tmp_path, phsafe_command):
    folder = two_estimates.write(tmp_path / "tables")
    (folder / "diagnostics.json").write_text("[" * 100_000)
    outcome = phsafe_command("report", two.path, tmp_path / "r.html", "--estimates", folder)
    assert outcome.code == 1
    assert "expected JSON" in outcome.err
    verdict = "<img src=x onerror=alert(1)>"
    (folder / "diagnostics.json").write_text(
        json.dumps(
            {"format": "phsafe-estimates/1", "method": "joint", "noise_test": {"verdict": verdict}, "left_out": 3}
        )
    )
    assert phsafe_command("report", two.path, tmp_path / "r.html", "--estimates", folder).code == 0
    assert verdict in words(tmp_path / "r.html")
    assert "img" not in read(tmp_path / "r.html").tags


def test_changed_release_is_refused_or_reported_with_a_warning(two, tmp_path, phsafe_command):
    release = shutil.copytree(two.path, tmp_path / "release")
    file = release / "PH2" / "ph2.csv"
    file.write_text(file.read_text().replace("|Discrete", "1|Discrete", 1))
    outcome = phsafe_command("report", release, tmp_path / "r.html")
    assert outcome.code == 1
    assert "was changed" in outcome.err
    assert not (tmp_path / "r.html").exists()
    assert phsafe_command("report", release, tmp_path / "r.html", "--force").code == 0
    assert "This release failed its check." in words(tmp_path / "r.html")
    assert "ph2.csv was changed" in words(tmp_path / "r.html")


def test_existing_file_is_never_overwritten(two, tmp_path, phsafe_command):
    (tmp_path / "r.html").write_text("mine")
    outcome = phsafe_command("report", tmp_path / "no release", tmp_path / "r.html")
    assert outcome.code == 1
    assert "expected a release folder" in outcome.err
    assert "expected a file that doesn't exist yet" in outcome.err
    assert (tmp_path / "r.html").read_text() == "mine"


def hostile(release, folder, change):
    """A copy of a release with a changed manifest."""
    copy = shutil.copytree(release.path, folder)
    manifest = json.loads((copy / MANIFEST).read_text())
    change(manifest)
    (copy / MANIFEST).write_text(json.dumps(manifest))
    return copy


def deep(depth):
    return {"x": deep(depth - 1)} if depth else "end"


@pytest.mark.parametrize(
    ("versions", "release_id"),
    [
        ({"opendp": 10**400, "<b>": None}, 10**400),
        ({"opendp": deep(400)}, deep(400)),
        ("</script><script>alert(1)</script>", "</style><script>alert(1)</script>"),
        ({f"part {i}": "x" * 10_000 for i in range(500)}, "\u202e" * 10_000),
        (None, None),
    ],
    ids=["huge", "deep", "script", "long", "none"],
)
def test_hostile_manifest_is_shown_as_text_only(versions, release_id, partial, tmp_path):
    copy = hostile(
        partial("tight"),
        tmp_path / "copy",
        lambda m: m.update(versions=versions, release_id=release_id, more=deep(50)),
    )
    with pytest.raises(PHSafeError, match="manifest"):
        phsafe.report(copy, tmp_path / "r.html")
    path = phsafe.report(copy, tmp_path / "r.html", title="<i>&amp;</i>", force=True)
    parsed = read(path)
    assert parsed.tags.count("script") == 2
    assert path.stat().st_size < 300_000
    assert "\u202e" not in path.read_text()
    assert "<i>&amp;</i>" in " ".join(parsed.texts)


def test_the_page_says_what_a_mode_assumes(partial, tmp_path):
    """Everybody is in blind cells, levels are accounted jointly, and a whole household is protected less."""
    texts = {}
    for name in ("structured", "tight", "one table"):
        page = tmp_path / f"{name}.html"
        phsafe.report(partial(name).path, page)
        texts[name] = page.read_text(encoding="utf-8")
    assert "include everyone" in texts["structured"] and "include everyone" not in texts["tight"]
    for name, shown in texts.items():
        for phrase in ("the larger of two sums", "geography of an address is public"):
            assert (phrase in shown) == (name != "one table")
