"""Catalogs as documents: nothing is lost on the way, nothing is trusted, and every problem is one sentence."""

import json
from copy import deepcopy

import pytest

import phsafe
from phsafe.errors import PHSafeError
from phsafe.model import table_checks
from phsafe.model.catalog_writer import document_hash
from phsafe.model.code_lists import codes_text, parse_codes
from phsafe.model.conditions import where
from phsafe.model.exact_numbers import dumps
from phsafe.model.levels import H_I, Geography, Level
from phsafe.model.schema import PERSONS, UNITS
from phsafe.model.spec import Line, Table, Tabulation
from phsafe.model.tables import CENSUS_2020

COUNTY = Geography(
    "county", "County", "COUNTY", ("TABBLKST", "TABBLKCOU"), (("44001", "Bristol"), ("44003", "")), covers=False
)
PH9 = Table(
    "PH9",
    "Grandchildren | “quoted” \u202e\n",
    "Everybody",
    (Line(0, "x"), Line(7, "y", 3)),
    (
        Tabulation(
            "PH9",
            {0: where(RELSHIP="30"), 7: where(RELSHIP=["20", "21", "22", "36"], FINAL_POP=[1, 2, 5])},
            persons=where(),
            iterate_by="person",
        ),
    ),
)
OWN = CENSUS_2020.extended((PH9,), (Level(COUNTY, H_I),))


@pytest.fixture
def document():
    return deepcopy(OWN.to_document())


@pytest.mark.parametrize("catalog", [CENSUS_2020, OWN], ids=["census", "own"])
def test_a_catalog_survives_the_way_through_a_file(catalog, tmp_path):
    file = tmp_path / "catalog.json"
    file.write_text(dumps(catalog.to_document()))
    loaded = phsafe.Catalog.load(file)
    assert loaded == catalog and hash(loaded) == hash(catalog)
    assert loaded.to_document() == catalog.to_document()
    assert phsafe.Catalog.load(str(file)) == catalog and phsafe.Catalog.load(catalog) is catalog


def test_catalogs_differ_where_their_tables_or_levels_do():
    assert CENSUS_2020 not in (OWN, 3)
    assert len({document_hash(c.to_document()) for c in (OWN, CENSUS_2020, OWN)}) == 2


def test_toml_has_the_same_form(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text("""
format = "phsafe-catalog/1"
levels = ["usa_*"]

[[tables]]
name = "T"
title = "Tenure"
universe = "Occupied units"
lines = [{line = 1, label = "Total", adds = [2, 3]}, {line = 2, label = "Owned", indent = 1},
         {line = 3, label = "Rented", indent = 1}]

[[tables.tabulations]]
name = "T"
units = {RTYPE = "2", HHT = "1-7"}
cells = {2 = {TEN = "1, 2"}, 3 = {TEN = "3, 4"}}

[[geographies]]
key = "usa"
label = "Nation"
region_type = "USA"
columns = []
puerto_rico = false
regions = {1 = "United States"}

[[iteration_levels]]
key = "*"
label = "everyone"
covers = true
iterations = [{code = "*", label = "Total population"}]
""")
    catalog = phsafe.Catalog.load(file)
    assert [level.label for level in catalog.levels] == ["Nation × everyone"]
    assert catalog.tabulation("T").cells == {2: where(TEN=["1", "2"]), 3: where(TEN=["3", "4"])}
    assert catalog.tabulation("T").iterate_by == "householder"


def refused(document):
    with pytest.raises(PHSafeError) as error:
        phsafe.Catalog.load(document)
    assert all("\n" not in reason and len(reason) < 600 for reason in error.value.reasons)
    return error.value.reasons


def ph9(document):
    return document["tables"][8]["tabulations"][0]


#: What is changed → the sentence.
BAD = {
    "another format": (lambda d: d.update(format="x"), "expected a catalog with format phsafe-catalog/1, got 'x'"),
    "an unknown key": (lambda d: d.update(more=1), "catalog: expected only format, tables"),
    "a missing key": (lambda d: d.pop("levels"), "catalog: levels missing"),
    "tables that are no list": (lambda d: d.update(tables={}), "tables: expected a list, got {}"),
    "a table that is no object": (lambda d: d["tables"].append(3), "table 10: expected an object with name"),
    "an unknown key of a table": (lambda d: d["tables"][8].update(x=1), "PH9: expected only name, title"),
    "a title that is no text": (lambda d: d["tables"][8].update(title=3), "PH9, title: expected text, got 3"),
    "an unknown key of a line": (lambda d: d["tables"][8]["lines"][0].update(of=[1]), "PH9, lines: expected only line"),
    "a line without a label": (lambda d: d["tables"][8]["lines"][0].pop("label"), "PH9, lines: label missing"),
    "a line number as text": (
        lambda d: d["tables"][8]["lines"][0].update(line="1"), "PH9, line: expected a whole number, got '1'",
    ),
    "true as a line number": (
        lambda d: d["tables"][8]["lines"][0].update(line=True), "PH9, line: expected a whole number, got True",
    ),
    "a wrong indent": (
        lambda d: d["tables"][8]["lines"][0].update(indent=21), "PH9, line 0: expected an indent from 0 to 20, got 21",
    ),
    "overlapping cells": (
        lambda d: ph9(d)["cells"].update({"7": {"QAGE": "1"}}), "PH9: cells 0 and 7 overlap",
    ),
    "a foreign code": (
        lambda d: ph9(d)["cells"].update({"7": {"QAGE": "18-120"}}),
        "PH9, cell 7, QAGE: expected codes of QAGE among 0-115, in this order, got '18-120'",
    ),
    "codes out of order": (
        lambda d: ph9(d)["cells"].update({"7": {"QAGE": "5, 3"}}), "PH9, cell 7, QAGE: expected codes of QAGE",
    ),
    "codes as a number": (
        lambda d: ph9(d)["cells"].update({"7": {"QAGE": 5}}), "PH9, cell 7, QAGE: expected text, got 5",
    ),
    "no codes": (
        lambda d: ph9(d)["cells"].update({"7": {"QAGE": ""}}), "PH9, cell 7, QAGE: expected codes of QAGE",
    ),
    "a foreign column": (
        lambda d: ph9(d)["cells"].update({"7": {"AGE": "5"}}), "PH9, cell 7: expected columns among QAGE",
    ),
    "the household key": (
        lambda d: ph9(d)["cells"].update({"7": {"MAFID": "100000001"}}), "PH9, cell 7: expected columns among QAGE",
    ),
    "a condition that is no object": (
        lambda d: ph9(d)["cells"].update({"7": "QAGE > 3"}), "PH9, cell 7: expected an object of columns and codes",
    ),
    "a cell that is no number": (
        lambda d: ph9(d)["cells"].update({"07": {}}), "PH9, cell: expected line numbers as keys, got '07'",
    ),
    "an unknown key of a tabulation": (
        lambda d: ph9(d).update(filter="x"), "PH9, tabulation 1: expected only name, cells",
    ),
    "an unknown iterate_by": (
        lambda d: ph9(d).update(iterate_by="dog"), "PH9: expected iterate_by to be person, householder or None",
    ),
    "a derived cell of an unknown cell": (
        lambda d: d["tables"][4]["derived"][0]["cells"].update({"3": [9]}), "PH5_num: expected cells of PH4, got 9",
    ),
    "an average by a text": (
        lambda d: d["tables"][0]["average"]["per"].update({"1": "1"}),
        "PH1, average, per 1: expected a whole number, got '1'",
    ),
    "an unknown level": (lambda d: d["levels"].append("moon_*"), "expected a geography with an iteration level"),
    "a repeated level": (lambda d: d["levels"].append("usa_*"), "expected every level once"),
    "a geography without a level": (
        lambda d: d["levels"].remove("county_H,I"),
        "levels: expected every geography and iteration level in a level, got none for county",
    ),
    "a region as a number": (
        lambda d: d["geographies"][2]["regions"].update({"44005": 5}), "county, regions: expected text, got 5",
    ),
    "a flag as a text": (
        lambda d: d["geographies"][2].update(covers="no"), "county, covers: expected true or false, got 'no'",
    ),
    "a foreign race": (
        lambda d: d["iteration_levels"][1]["iterations"][0].update(races="64"),
        "iteration A, races: expected codes of CENRACE among 01-63",
    ),
    "overlapping iterations": (
        lambda d: d["iteration_levels"][1]["iterations"][0].update(races="02"), "A-G: iterations A and B overlap",
    ),
    "codes of another schema": (
        lambda d: d["columns"]["persons"]["QAGE"].update(codes="0-130"),
        "columns, persons, QAGE: expected the codes that this version of PHSafe has (0-115), got '0-130'",
    ),
    "an unknown column": (
        lambda d: d["columns"]["persons"].update(AGE={"label": "", "codes": ""}), "columns, persons, AGE: expected",
    ),
    "a threshold that the table doesn't have": (
        lambda d: d["tables"][0]["truncation"][0].update(beyond="PH7"),
        "PH1_dropped, beyond: expected a tabulation of the table (PH1_num, PH1_denom), got 'PH7'",
    ),
    "a threshold of units": (
        lambda d: d["tables"][0]["truncation"][0].update(beyond="PH1_denom"),
        "PH1_dropped: expected beyond to be a tabulation of persons with a threshold, got PH1_denom",
    ),
    "no threshold": (
        lambda d: d["tables"][0]["truncation"][0].pop("beyond"), "PH1, truncation 1: beyond missing",
    ),
    "an unknown record": (lambda d: d["columns"].update(pets={}), "columns: expected only persons, units, geo"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_document_is_refused_in_one_sentence(document, name):
    change, sentence = BAD[name]
    change(document)
    reasons = refused(document)
    assert any(sentence in reason for reason in reasons), reasons


def test_all_problems_are_reported_together(document, tmp_path):
    for name in ("overlapping cells", "an unknown key", "a foreign race", "a flag as a text", "an average by a text"):
        BAD[name][0](document)
    file = tmp_path / "own.json"
    file.write_text(json.dumps(document))
    reasons = refused(file)
    assert len(reasons) == 5 and all(reason.startswith(f"{file}: ") for reason in reasons)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"format": 1, "format": 2}', "format occurs more than once"),
        ("[]", "expected an object with the fields of a catalog, got []"),
        ("{", "expected JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_catalog(tmp_path, content, sentence):
    file = tmp_path / "own.json"
    file.write_text(content)
    assert sentence in refused(file)[0]
    assert "can't read the catalog" in refused(tmp_path / "none.json")[0]


def test_a_repeated_key_among_many_is_found_at_once(tmp_path):
    """Comparing each of them with all others would take hours."""
    file = tmp_path / "own.json"
    file.write_text("{" + ", ".join(f'"{i}": 0' for i in [*range(1_000_000), 5]) + "}")
    assert "5 occurs more than once" in refused(file)[0]


def many(number, make):
    return [make(i) for i in range(number)]


#: Documents that would use up time or memory, if sizes were not checked first.
HOSTILE = {
    "cells": lambda d: ph9(d).update(cells={str(i): {} for i in range(200_000)}),
    "tabulations": lambda d: d["tables"][8].update(tabulations=many(2_000, lambda i: ph9(d) | {"name": f"T{i}"})),
    "tables": lambda d: d.update(tables=many(100_000, lambda i: {})),
    "lines": lambda d: d["tables"][8].update(lines=many(100_000, lambda i: {"line": i, "label": ""})),
    "levels": lambda d: d.update(levels=["usa_*"] * 100_000),
    "geographies": lambda d: d.update(geographies=many(100_000, lambda i: {})),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_document_of_hostile_size_is_refused_before_it_is_read(document, name):
    HOSTILE[name](document)
    assert all(reason.startswith("expected a catalog of at most") for reason in refused(document))


def test_codes_are_limited(document, monkeypatch):
    monkeypatch.setattr(table_checks, "MAX_CODES", 100)
    assert refused(document) == ("expected a catalog of at most 100 codes, got more",)
    # One code list can't repeat codes, so only many lists reach the limit.
    with pytest.raises(ValueError, match="in this order"):
        parse_codes(UNITS["FINAL_POP"], ", ".join(["0-99999"] * 3))


def test_very_many_problems_are_cut_short(document):
    document["tables"][8]["lines"] = many(300, lambda i: {"line": "x", "label": i})
    reasons = refused(document)
    assert len(reasons) == 101 and reasons[-1].endswith("more problems")


@pytest.mark.parametrize(
    ("column", "codes", "text"),
    [
        (PERSONS["QAGE"], {0}, "0"),
        (PERSONS["QAGE"], {0, 1}, "0, 1"),
        (PERSONS["QAGE"], set(range(116)), "0-115"),
        (UNITS["NPF"], {0, 2, 3, 97}, "0-3, 97"),
        (UNITS["HHT2"], {"01", "02", "03", "12"}, "01-03, 12"),
    ],
)
def test_code_lists(column, codes, text):
    assert codes_text(column, codes) == text
    assert parse_codes(column, text) == codes


@pytest.mark.parametrize(
    "text", ["", "-", "3-", "-3", "1.0", "01", "3-1", "1,1", "1-3, 3", "1;2", "１", "0-999999999999"]
)
def test_bad_code_lists_are_refused(text):
    with pytest.raises(ValueError, match="expected codes of QAGE among 0-115"):
        parse_codes(PERSONS["QAGE"], text)
