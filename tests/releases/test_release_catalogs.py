"""A release opens from its folder alone, under any later catalog; one through another catalog says so."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import phsafe
from phsafe.errors import OutputError, PHSafeError
from phsafe.model import tables
from phsafe.model.catalog_changes import catalog_changes
from phsafe.model.conditions import where
from phsafe.model.exact_numbers import dumps
from phsafe.model.levels import A_G, STATE, UNATTRIBUTED, Geography, Level
from phsafe.model.spec import Catalog, Line, Table, Tabulation
from phsafe.model.tables import CENSUS_2020, PH1, PH7
from phsafe.releases import manifest, release_folder
from phsafe.releases.release_folder import Release

FORMAT_1 = Path(__file__).parents[1] / "data" / "release-1"
LATER = Table(
    "PH9", "Grandchildren", "Population in households", (Line(1, "Grandchildren"),),
    (Tabulation("PH9", {1: where(RELSHIP="30")}, persons=where(RTYPE=3)),),
)  # fmt: skip


def swapped() -> Catalog:
    """The 2020 tables, but the first two cells of PH7 are swapped."""
    cells = {2: where(TEN="2"), 3: where(TEN="1"), 4: where(TEN=["3", "4"])}
    tabulation = replace(PH7.tabulations[0], cells=cells)
    truncation = tuple(replace(one, beyond=tabulation) for one in PH7.truncation)
    other = replace(PH7, tabulations=(tabulation,), truncation=truncation)
    return Catalog(tuple(other if table is PH7 else table for table in CENSUS_2020.tables), CENSUS_2020.levels)


@pytest.fixture
def make(us_document, small, tmp_path):
    """Release PH1 and PH7, and what a catalog adds, for two states."""

    def run(catalog=None):
        document = us_document | {"state_filter": ["44", "56"]}
        used = CENSUS_2020 if catalog is None else catalog
        document["privacy_budget"] = {
            t.name: {
                level.key: 0.5 if t.name in ("PH1_num", "PH1_denom", "PH7", "PH9") and level.key.endswith("*") else 0
                for level in used.levels_of(t)
            }
            for t in used.tabulations
        }
        document["tau"] = {t.name: 10 for t in used.tabulations if t.is_truncated}
        out = tmp_path / "release"
        return phsafe.release(
            document, small, out, ledger=tmp_path / "l", new_ledger=True, skip_validation=True, catalog=catalog
        )

    return run


@pytest.fixture
def later(monkeypatch):
    """A later version of the program, whose catalog has another table and another PH7."""
    catalog = swapped().extended((LATER,))
    monkeypatch.setattr(tables, "CENSUS_2020", catalog)
    monkeypatch.setattr(release_folder, "CENSUS_2020", catalog)
    return catalog


def all_commands(phsafe_command, release, tmp_path):
    """Every command that opens a release, on its folder alone; what `check` notes."""
    checked = phsafe_command("check", release)
    assert (checked.code, "complete and unmodified" in checked.out) == (0, True), checked
    for words in (
        ("estimate", release, tmp_path / "estimates", "--method", "independent"),
        ("report", release, tmp_path / "report.html", "--estimates", tmp_path / "estimates"),
        ("registry", release, tmp_path / "entry.yaml"),
    ):
        outcome = phsafe_command(*words)
        assert outcome.code == 0, outcome
    return checked.err


def test_a_release_of_format_1_opens(phsafe_command, tmp_path):
    note = all_commands(phsafe_command, FORMAT_1, tmp_path)
    assert "predates the recording of catalogs" in note
    assert "predates the recording of catalogs" in (tmp_path / "report.html").read_text()
    opened = Release.open(FORMAT_1)
    assert opened.tables == ("PH1", "PH2", "PH7", "PH8") and opened.config.catalog == CENSUS_2020
    assert opened.table("PH8")["TABULATION"].unique().sort().to_list() == ["PH8_denom", "PH8_num"]


def test_a_release_of_format_1_opens_under_a_later_catalog(later, phsafe_command):
    assert phsafe_command("check", FORMAT_1).code == 0
    assert "PH9" not in {table.name for table in Release.open(FORMAT_1).config.catalog.tables}


def test_a_damaged_release_of_format_1_is_refused(tmp_path):
    shutil.copytree(FORMAT_1, tmp_path / "r")
    file = tmp_path / "r" / "manifest.json"
    document = json.loads(file.read_text())
    for change in ({"catalog": {}}, {"build": {}}):
        file.write_text(json.dumps(document | change))
        with pytest.raises(OutputError, match="has one too many"):
            Release.open(tmp_path / "r")
    file.write_text(json.dumps(document | {"config": {"privacy_budget": []}}))
    with pytest.raises(OutputError, match="privacy_budget: expected a mapping"):
        Release.open(tmp_path / "r")


def test_a_release_through_the_shipped_catalog_has_nothing_to_note(make, phsafe_command, tmp_path):
    release = make()
    assert release.catalog_notes == ()
    assert "differs" not in all_commands(phsafe_command, release.path, tmp_path)
    assert "differs from the 2020 Census" not in (tmp_path / "report.html").read_text()


def test_the_report_shows_what_made_the_release(make, phsafe_command, tmp_path):
    release = make()
    all_commands(phsafe_command, release.path, tmp_path)
    page = (tmp_path / "report.html").read_text()
    build, system = release.manifest["build"], release.manifest["platform"]
    for shown in (
        build["files_sha256"],
        release.manifest["catalog_sha256"],
        f"python {system['python']}",
        "engine duckdb",
    ):
        assert shown in page, shown


def test_older_releases_open_under_a_later_catalog(make, phsafe_command, tmp_path, request):
    release = make()
    request.getfixturevalue("later")
    note = all_commands(phsafe_command, release.path, tmp_path)
    assert "Table PH9 was removed." in note and "Table PH7 was changed: PH7 (cells 2, 3)." in note
    assert Release.open(release.path).config.catalog == CENSUS_2020


def test_swapped_cells_are_visible_on_the_first_page(make, phsafe_command, tmp_path):
    release = make(swapped())
    note = all_commands(phsafe_command, release.path, tmp_path)
    assert "differs from the 2020 Census tables that PHSafe ships" in note
    page = (tmp_path / "report.html").read_text()
    header = page[page.index("<header>") : page.index("</header>")]
    assert "differs from the 2020 Census tables" in header and "Table PH7 was changed: PH7 (cells 2, 3)." in header
    assert "Table PH7 was changed" in (tmp_path / "entry.yaml").read_text()


def test_own_tables_and_levels_open_from_the_folder_alone(make, phsafe_command, tmp_path):
    county = Geography("county", "County", "COUNTY", ("TABBLKST", "TABBLKCOU"), (("44001", "Bristol"),), covers=False)
    release = make(CENSUS_2020.extended((LATER,), (Level(county, UNATTRIBUTED),)))
    note = all_commands(phsafe_command, release.path, tmp_path)
    assert "Table PH9 was added." in note and "Level county_* was added." in note
    assert Release.open(release.path).measurements("PH9")["REGION_ID"].to_list() == ["1", "44", "56", "44001"]
    assert (tmp_path / "estimates" / "PH9.csv").exists()


CHANGES = {
    "nothing": (CENSUS_2020, ()),
    "a title": (Catalog((replace(PH1, title="x"), *CENSUS_2020.tables[1:]), CENSUS_2020.levels),
                ("Table PH1 was changed: its title.",)),
    "fewer tables": (Catalog(CENSUS_2020.tables[1:], CENSUS_2020.levels), ("Table PH1 was removed.",)),
    "fewer levels": (Catalog(CENSUS_2020.tables, CENSUS_2020.levels[:5]), ("Level state_H,I was removed.",)),
    "the order": (Catalog(CENSUS_2020.tables[::-1], CENSUS_2020.levels), ("The order of tables or levels changed.",)),
    "regions": (
        Catalog(CENSUS_2020.tables, (
            *CENSUS_2020.levels[:3],
            *(Level(replace(STATE, regions=(("44", "x"),), covers=False), level.iteration_level)
              for level in CENSUS_2020.levels[3:]),
        )),
        ("Geography state was changed: whether it covers everyone; its regions.",),
    ),
    "iterations": (
        Catalog(CENSUS_2020.tables, tuple(
            Level(level.geography, replace(A_G, label="x")) if level.iteration_level == A_G else level
            for level in CENSUS_2020.levels
        )),
        ("Iteration level A-G was changed: its label.",),
    ),
    "a filter": (
        Catalog((replace(PH1, tabulations=(
            replace(PH1.tabulations[0], persons=where(), iterate_by="person"), PH1.tabulations[1],
        ), truncation=()), *CENSUS_2020.tables[1:]), CENSUS_2020.levels),
        ("Table PH1 was changed: PH1_num (the person filter, whose race and ethnicity it uses); "
         "PH1_dropped (removed); PH1_oversized (removed).",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changes_in_sentences(name):
    catalog, sentences = CHANGES[name]
    assert catalog_changes(catalog, CENSUS_2020) == sentences


def edited(release, change):
    file = release.path / "manifest.json"
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document))
    with pytest.raises(OutputError) as refused:
        Release.open(release.path)
    return refused.value.reasons


def swap_in_manifest(document):
    cells = document["catalog"]["tables"][6]["tabulations"][0]["cells"]
    cells["2"], cells["3"] = cells["3"], cells["2"]


FORGED = {
    "swapped cells": (swap_in_manifest, "catalog_sha256 in the manifest doesn't match"),
    "another hash": (lambda d: d.update(catalog_sha256="0" * 64), "catalog_sha256 in the manifest doesn't match"),
    "fields left out": (lambda d: d["catalog"].pop("columns"), "catalog in the manifest doesn't match"),
    "no catalog": (lambda d: d.pop("catalog"), "expected the catalog as a JSON object"),
    "a path as the catalog": (lambda d: d.update(catalog="own.json"), "expected the catalog as a JSON object"),
    "overlapping cells": (
        lambda d: d["catalog"]["tables"][0]["tabulations"][0]["cells"].update({"3": {}}), "cells 2 and 3 overlap",
    ),
    "no build": (lambda d: d.pop("build"), "lacks a key"),
    "a later format": (lambda d: d.update(format="phsafe-release/3"), "needs a later version of PHSafe"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_catalog_is_refused(make, name):
    change, sentence = FORGED[name]
    assert any(sentence in reason for reason in edited(make(), change))


def test_a_hostile_grid_is_refused_before_it_is_made(make, monkeypatch):
    """A manifest of few pages could ask for more rows than fit into memory."""
    release = make()

    def change(document):
        state = document["catalog"]["geographies"][1]
        state.update(columns=["TABBLKST", "TABTRACTCE"], covers=False)
        state["regions"] = {f"44{i:06d}": "" for i in range(100_000)}

    monkeypatch.setattr(release_folder.pl, "DataFrame", None)
    assert any("don't match the grid" in reason for reason in edited(release, change))


def test_a_manifest_with_too_many_values_is_not_parsed(make, monkeypatch):
    release = make()
    monkeypatch.setattr(manifest, "MAX_VALUES", 10)
    assert "at most 50000000 bytes and 1000000 values" in edited(release, lambda document: None)[0]


def test_a_manifest_that_could_not_be_read_again_is_refused_before_the_charge(make, monkeypatch, tmp_path):
    monkeypatch.setattr(manifest, "MAX_BYTES", manifest.HASH_BYTES + 10_000)
    with pytest.raises(PHSafeError, match="shorten the names of its regions"):
        make()
    assert not (tmp_path / "l").exists() and not (tmp_path / "release").exists()


def test_keys_that_a_file_could_not_distinguish_are_refused_before_the_charge(make, tmp_path):
    """The key county_x_* is that of two levels: of county_x with *, and of county with x_*."""
    regions = (("44001", "Bristol"),)
    columns = ("TABBLKST", "TABBLKCOU")
    one, other = (Geography(key, "x", key.upper(), columns, regions, covers=False) for key in ("county", "county_x"))
    levels = (Level(one, replace(UNATTRIBUTED, key="x_*")), Level(other, replace(A_G, key="y")))
    with pytest.raises(PHSafeError, match="expected distinct keys, got county_x_"):
        make(CENSUS_2020.extended(levels=levels))
    assert not (tmp_path / "l").exists() and not (tmp_path / "release").exists()


def test_the_catalog_in_the_manifest_is_the_one_that_loads(make, tmp_path):
    """Its own form, so that it can go to --catalog."""
    document = json.loads((make(swapped()).path / "manifest.json").read_text())
    file = tmp_path / "own.json"
    file.write_text(dumps(document["catalog"]))
    assert phsafe.Catalog.load(file) == swapped()
