"""Validation finds every type of damage to clean data: the rule, the table, the column and the number of rows."""

from __future__ import annotations

import polars as pl
import pytest

import phsafe
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.model.schema import LAYOUTS
from phsafe.pipeline.validation import OUTSIDE_FILTER, STATE_NOT_EMPTY, WITHOUT_HOUSING

HOUSEHOLDS = 250
DOMAIN, GIVEN, NUMBER = "the value is in the column's domain", "the value is not missing", "the value is a whole number"


@pytest.fixture(scope="module")
def clean(parity) -> dict[str, pl.DataFrame]:
    """Realistic households that violate no rule, with all columns as text."""
    frames = {name: pl.read_csv(parity / f"{name}.csv", infer_schema=False) for name in ("persons", "units", "geo")}
    small = frames["units"].filter(pl.col("FINAL_POP").cast(int) < 7).head(HOUSEHOLDS)["MAFID"].implode()
    return {name: frame.filter(pl.col("MAFID").is_in(small)) for name, frame in frames.items()}


def findings(frames, us, **options) -> dict[tuple[str, str, str, str], int]:
    """What validation finds in frames that are too small to have households in every state."""
    report = phsafe.validate(us, frames, allow_empty_states=True, **options)
    found = {(f.severity, f.rule, f.table, f.column): f.rows for f in report.findings}
    found.pop(("warning", STATE_NOT_EMPTY, "units", ""), None)
    return found


def put(frame: pl.DataFrame, column: str, value: object, where: pl.Expr, rows: int) -> pl.DataFrame:
    """Set a column to a value in the first `rows` rows that meet a condition."""
    chosen = frame.with_row_index("row").filter(where).head(rows)["row"].implode()
    assert chosen.list.len().item() == rows
    cell = pl.when(pl.col("row").is_in(chosen)).then(pl.lit(value)).otherwise(pl.col(column)).alias(column)
    return frame.with_row_index("row").with_columns(cell).drop("row")


def test_clean_data_has_no_finding(clean, us):
    assert findings(clean, us) == {}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_missing_and_out_of_domain_values_are_found_in_every_column(clean, us, layout):
    frame, expected = clean[layout.name], {}
    for i, column in enumerate(layout.columns):
        bad, empty = 2 * i + 1, 2 * i + 2
        numbered = frame.with_row_index("row")
        is_bad, is_empty = (
            pl.col("row").is_between(0, bad - 1),
            pl.col("row").is_between(bad, bad + empty - 1),
        )
        wrong = "777777777" if column.name != "MAFID" else "99"
        frame = numbered.with_columns(
            pl.when(is_bad).then(pl.lit(wrong)).when(is_empty).then(None).otherwise(column.name).alias(column.name)
        ).drop("row")
        expected["error", DOMAIN, layout.name, column.name] = bad
        expected["error", NUMBER if column.is_integer else GIVEN, layout.name, column.name] = empty
    found = findings(clean | {layout.name: frame}, us, allow_unclassified=True)
    assert {key: rows for key, rows in found.items() if key[1] in (DOMAIN, GIVEN, NUMBER)} == expected


def test_an_unknown_state_is_an_error_but_one_outside_the_filter_is_not(clean, us):
    unknown = put(clean["geo"], "TABBLKST", "03", pl.col("RTYPE") == "2", 4)
    assert findings(clean | {"geo": unknown}, us) == {("error", DOMAIN, "geo", "TABBLKST"): 4}
    outside = put(clean["geo"], "TABBLKST", "72", pl.col("RTYPE") == "2", 4)
    gone = outside.filter(TABBLKST="72")["MAFID"].to_list()
    expected = {
        ("note", OUTSIDE_FILTER, name, ""): clean[name].filter(pl.col("MAFID").is_in(gone)).height
        for name in ("persons", "units")
    }
    assert findings(clean | {"geo": outside}, us) == {key: rows for key, rows in expected.items() if rows}


@pytest.mark.parametrize("text", ["1.0", " 1", "01", "1e0", "+1", "-1", "١"])
def test_other_text_forms_of_integers_are_errors(clean, us, text):
    persons = put(clean["persons"], "CENHISP", text, pl.col("RTYPE") == "3", 3)
    assert (
        findings(clean | {"persons": persons}, us, allow_unclassified=True)["error", NUMBER, "persons", "CENHISP"] == 3
    )


OCCUPIED = (pl.col("RTYPE") == "2") & (pl.col("HHT") != "0")
VACANT = (pl.col("RTYPE") == "2") & (pl.col("HHT") == "0")
MARRIED, ALONE = pl.col("HHT") == "1", pl.col("HHT") == "4"


def repeated(frame: pl.DataFrame, where: pl.Expr, rows: int) -> pl.DataFrame:
    return pl.concat([frame, frame.filter(where).head(rows)])


def without(frame: pl.DataFrame, where: pl.Expr, rows: int) -> pl.DataFrame:
    return frame.join(frame.filter(where).head(rows), on="MAFID", how="anti")


#: name → (table, damage, expected finding: severity, rule, table, column, rows)
DAMAGES = {
    "repeated unit": (
        "units", lambda f: repeated(f, VACANT, 3), ("error", "MAFID is unique in units", "units", "MAFID", 6)),
    "repeated geo": (
        "geo", lambda f: repeated(f, pl.lit(True), 3), ("error", "MAFID is unique in geo", "geo", "MAFID", 6)),
    "unit without geo": (
        "geo", lambda f: f.slice(5), ("error", "every unit's MAFID is in geo", "units", "MAFID", 5)),
    "geo without unit": (
        "units", lambda f: without(f, VACANT, 4), ("error", "every geo row's MAFID is in units", "geo", "MAFID", 4)),
    "person without unit": (
        "units", lambda f: without(f, ALONE, 4), ("error", "every person's MAFID is in units", "persons", "MAFID", 4)),
    "no race of the householder": (
        "units", lambda f: put(f, "HHRACE", "00", OCCUPIED, 5),
        ("error", "an occupied housing unit records the householder's race and ethnicity", "units", "HHRACE", 5)),
    "no ethnicity of the householder": (
        "units", lambda f: put(f, "HHSPAN", "0", OCCUPIED, 5),
        ("error", "an occupied housing unit records the householder's race and ethnicity", "units", "HHSPAN", 5)),
    "FINAL_POP": (
        "units", lambda f: put(f, "FINAL_POP", "99", OCCUPIED, 5),
        ("warning", "FINAL_POP equals the number of persons", "units", "FINAL_POP", 5)),
    "a second householder": (
        "persons", lambda f: put(f, "RELSHIP", "20", pl.col("RELSHIP") == "34", 2),
        ("warning", "an occupied unit has exactly one householder", "units", "RELSHIP", 2)),
    "no householder": (
        "persons",
        lambda f: put(f, "RELSHIP", "36", pl.col("MAFID").is_duplicated() & (pl.col("RELSHIP") == "20"), 2),
        ("warning", "an occupied unit has exactly one householder", "units", "RELSHIP", 2)),
    "NPF": (
        "units", lambda f: put(f, "NPF", "9", OCCUPIED, 5),
        ("warning", "NPF equals the number of persons in the family", "units", "NPF", 5)),
    "HHT": (
        "units", lambda f: put(f, "HHT", "5", MARRIED, 5),
        ("warning", "HHT is consistent with the household's members", "units", "HHT", 5)),
    "HHT2": (
        "units", lambda f: put(f, "HHT2", "08", pl.col("HHT2") == "07", 2),
        ("warning", "HHT2 is consistent with the household's members", "units", "HHT2", 2)),
    "the householder's sex": (
        "units", lambda f: put(f, "HHT2", "05", ALONE, 5),
        ("warning", "HHT and HHT2 agree on the householder's sex", "units", "HHT2", 5)),
    "CPLT": (
        "units", lambda f: put(f, "CPLT", "4", pl.col("CPLT") == "5", 5),
        ("warning", "CPLT is consistent with the household's members", "units", "CPLT", 5)),
    "a person in quarters in a housing unit": (
        "persons", lambda f: put(f, "RTYPE", "5", pl.col("RELSHIP") == "20", 5),
        ("warning", "a person's RTYPE is consistent with the unit's", "persons", "RTYPE", 5)),
    "geo with another RTYPE": (
        "geo", lambda f: put(f, "RTYPE", "4", pl.col("RTYPE") == "2", 5),
        ("warning", "units and geo agree on RTYPE", "geo", "RTYPE", 5)),
    "own children in a household coded without": (
        "units", lambda f: put(f, "HHT2", "02", pl.col("HHT2") == "01", 1),
        ("error", "every record in the universe falls in a cell", "PH6", "", None)),
    "a married couple coded as no couple": (
        "units", lambda f: put(f, "CPLT", "5", MARRIED, 5),
        ("error", "every record in the universe falls in a cell", "PH2", "", None)),
    "no tenure": (
        "units", lambda f: put(f, "TEN", "0", OCCUPIED, 5),
        ("error", "every record in the universe falls in a cell", "PH8_denom", "", 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_violates_its_rule(clean, us, name):
    table, damage, (*key, rows) = DAMAGES[name]
    found = findings(clean | {table: damage(clean[table])}, us)
    assert tuple(key) in found
    assert rows is None or found[tuple(key)] == rows


@pytest.fixture(scope="module")
def structured():
    """The 2020 tables with measured truncation, τ = 1, in the mode that counts without the unit table."""
    document = parameters_2020("us-measured")
    return Config.load(document | {"sensitivity": "structured", "tau": dict.fromkeys(document["tau"], 1)})


@pytest.mark.parametrize("table", ["units", "geo"])
def test_people_whom_only_blind_counts_include(clean, structured, table):
    """Their record type is that of a housing unit, and that of the unit or of geo is not."""
    large = clean["persons"].filter(RTYPE="3").group_by("MAFID").len().filter(pl.col("len") > 2)["MAFID"].sort()[:4]
    damaged = clean | {table: put(clean[table], "RTYPE", "4", pl.col("MAFID").is_in(large.implode()), 4)}
    misplaced = clean["persons"].filter(pl.col("MAFID").is_in(large.implode()))
    minors = misplaced.filter(pl.col("QAGE").cast(int) < 18).height
    found = findings(damaged, structured)
    by_name = {where: rows for (_, rule, where, _), rows in found.items() if rule == WITHOUT_HOUSING}
    assert {severity for severity, rule, *_ in found if rule == WITHOUT_HOUSING} == {"error"}
    assert (by_name["PH1_num"], by_name["PH3"]) == (misplaced.height, minors)
    assert by_name["PH1_dropped"] == misplaced.height - 4  # The threshold keeps one of each household.
    allowed = findings(damaged, structured, allow_unclassified=True)
    assert {severity for severity, rule, *_ in allowed if rule == WITHOUT_HOUSING} == {"warning"}
    assert not any(rule == WITHOUT_HOUSING for _, rule, *_ in findings(clean, structured))
    published = structured.with_sensitivity("published")
    assert all("dropped" in where for _, rule, where, _ in findings(damaged, published) if rule == WITHOUT_HOUSING)


def elsewhere(frames):
    """The same households with other keys, in Puerto Rico."""
    moved = {name: frame.with_columns((pl.col("MAFID").cast(int) + 10**8).cast(str)) for name, frame in frames.items()}
    return moved | {"geo": moved["geo"].with_columns(TABBLKST=pl.lit("72"))}


#: Damages after which a household has no geo row, or several, and so no state.
STATELESS = ("repeated geo", "unit without geo")


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_outside_the_state_filter_violates_no_rule(clean, us, name):
    """Production drops other states first, so their records can't stop a run."""
    table, damage, (*key, rows) = DAMAGES[name]
    others = elsewhere(clean)
    others[table] = damage(others[table])
    found = findings({name: pl.concat([clean[name], others[name]]) for name in clean}, us)
    if name in STATELESS:
        assert found[tuple(key)] == rows
    else:
        assert {key[:2] for key in found} == {("note", OUTSIDE_FILTER)}
        assert found["note", OUTSIDE_FILTER, "units", ""] == others["units"].height


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_bad_values_outside_the_state_filter_are_no_findings_but_a_bad_state_or_key_is(clean, us, layout):
    others = elsewhere(clean)
    for column in layout.columns:
        frame = others[layout.name]
        half = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("777777777")).otherwise(None).alias(column.name)
        both = {name: pl.concat([clean[name], others[name]]) for name in clean}
        both[layout.name] = pl.concat([clean[layout.name], frame.with_columns(half)])
        rules = {(rule, where) for _, rule, _, where in findings(both, us) if rule in (DOMAIN, GIVEN, NUMBER)}
        if column.name == "TABBLKST":
            assert rules == {(DOMAIN, "TABBLKST"), (GIVEN, "TABBLKST")}
        elif column.name == "MAFID":
            assert rules == {(NUMBER, "MAFID")}
        else:
            assert rules == set()


def test_several_damages_are_reported_together(clean, us):
    """Damages that partly overlap must all be reported."""
    frames = dict(clean)
    for name in ("no tenure", "CPLT", "the householder's sex", "NPF", "FINAL_POP", "a second householder",
                 "no race of the householder", "repeated unit", "repeated geo", "geo with another RTYPE"):  # fmt: skip
        table, damage, _ = DAMAGES[name]
        frames[table] = damage(frames[table])
    found = findings(frames, us)
    for name in (
        "no tenure",
        "CPLT",
        "NPF",
        "FINAL_POP",
        "a second householder",
        "repeated unit",
        "repeated geo",
    ):
        assert tuple(DAMAGES[name][2][:4]) in found


def test_only_tabulations_with_a_budget_are_checked_for_cells(clean, us, us_document):
    damaged = clean | {"units": put(clean["units"], "TEN", "0", OCCUPIED, 5)}
    for name in ("PH7", "PH8_denom"):
        us_document["privacy_budget"][name] = dict.fromkeys(us_document["privacy_budget"][name], 0)
    assert findings(damaged, us_document) == {}
    assert {key[2] for key in findings(damaged, us)} == {"PH7", "PH8_denom"}


def test_unclassified_records_can_be_allowed(clean, us):
    damaged = clean | {"units": put(clean["units"], "TEN", "0", OCCUPIED, 5)}
    assert {key[0] for key in findings(damaged, us)} == {"error"}
    assert {key[0] for key in findings(damaged, us, allow_unclassified=True)} == {"warning"}


def test_persons_beyond_a_threshold_are_noted_with_their_share(clean, us_document):
    us_document["tau"]["PH1_num"] = 2
    report = phsafe.validate(us_document, clean, allow_empty_states=True)
    sizes = clean["persons"].filter(RTYPE="3").group_by("MAFID").len()["len"].cast(int)
    beyond = int((sizes - 2).clip(0).sum())
    (note,) = [f for f in report.findings if f.table == "PH1_num"]
    assert (note.severity, note.rows, note.share) == ("note", beyond, beyond / sizes.sum())
    assert report.ok


def test_extra_columns_are_counted_and_not_named(clean, us):
    extra = clean | {"units": clean["units"].with_columns(pl.lit("x").alias("SECRET"))}
    assert findings(extra, us) == {("warning", "every column is in the layout", "units", ""): 1}
    report = phsafe.validate(us, extra)
    assert "SECRET" not in str(report)
