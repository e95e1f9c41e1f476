"""A state without records, an empty table or a wrong total stops validate, tabulate and release."""

from __future__ import annotations

import json

import polars as pl
import pytest

import phsafe

COMMANDS = ["validate", "tabulate", "release"]
GENERIC = "phsafe: error: the input failed validation; run phsafe validate to see which rules are violated"
STATE = "every state of the filter has housing units"


def write(folder, frames):
    folder.mkdir()
    for name, frame in frames.items():
        frame.write_csv(folder / f"{name}.csv")
    return folder


@pytest.fixture
def without_california(small_frames, tmp_path):
    keys = small_frames["geo"].filter(TABBLKST="06")["MAFID"].to_list()
    frames = {name: frame.filter(~pl.col("MAFID").is_in(keys)) for name, frame in small_frames.items()}
    return write(tmp_path / "data", frames)


@pytest.fixture
def run(phsafe_command, tmp_path):
    """Run a command with an output and a ledger of its own, where it has one."""

    def call(command, config, data, *words):
        if command == "validate":
            return phsafe_command(command, config, data, "--json", *words)
        ledger = [] if command == "tabulate" else ["--new-ledger", "--ledger", tmp_path / "ledger"]
        return phsafe_command(command, config, data, tmp_path / "out", *ledger, *words)

    return call


def errors(outcome):
    return {(f["rule"], f["table"], f["rows"]) for f in json.loads(outcome.out)["findings"] if f["severity"] == "error"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_state_without_housing_units_is_refused_unless_allowed(run, us, without_california, command, tmp_path):
    refused = run(command, us, without_california)
    assert refused.code == 1
    if command == "validate":
        assert errors(refused) == {(STATE, "units", 1)}
    else:
        assert GENERIC in refused.err.replace("\n", " ") and "06" not in refused.err.replace(str(tmp_path), "")
    assert not (tmp_path / "out").exists()
    assert run(command, us, without_california, "--allow-empty-states").code == 0


@pytest.mark.parametrize("command", ["tabulate", "release"])
def test_skipping_validation_skips_it_too(run, us, without_california, command):
    assert run(command, us, without_california, "--skip-validation").code == 0


def test_vacant_units_are_housing_units_and_group_quarters_are_not(us_document, small_frames):
    config = us_document | {"state_filter": ["11"]}
    keys = small_frames["geo"].filter(TABBLKST="11")["MAFID"].to_list()
    frames = {name: frame.filter(pl.col("MAFID").is_in(keys)) for name, frame in small_frames.items()}
    config["privacy_budget"] = {name: dict(levels) for name, levels in config["privacy_budget"].items()}
    vacant = frames | {
        "persons": frames["persons"].head(0),
        "units": frames["units"].with_columns(
            pl.lit("0").alias(c) for c in ("HHT", "TEN", "CPLT", "FINAL_POP", "NPF", "HHSPAN")
        ).with_columns(pl.lit("00").alias(c) for c in ("HHT2", "HHRACE")),
    }  # fmt: skip
    report = phsafe.validate(config, vacant, allow_empty_states=True)
    assert report.states == {"11": {"persons": 0, "units": 2, "housing_units": 2, "households": 0}}
    assert {f.rule for f in phsafe.validate(config, vacant).of("error")} == {"the table has rows"}
    quarters = vacant | {name: vacant[name].with_columns(RTYPE=pl.lit("4")) for name in ("units", "geo")}
    assert {f.rule for f in phsafe.validate(config, quarters).of("error")} == {"the table has rows", STATE}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_puerto_rico_config_needs_puerto_rico(run, pr, small, command):
    refused = run(command, pr, small)
    assert refused.code == 1
    if command == "validate":
        assert errors(refused) == {(STATE, "units", 1)}


@pytest.mark.parametrize("table", ["persons", "units", "geo"])
@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_table_is_refused(run, us, small_frames, tmp_path, command, table):
    data = write(tmp_path / "data", small_frames | {table: small_frames[table].head(0)})
    refused = run(command, us, data)
    assert refused.code == 1
    if command == "validate":
        assert ("the table has rows", table, 0) in errors(refused)


def test_rows_by_state(phsafe_command, us, small, small_frames):
    states = json.loads(phsafe_command("validate", us, small, "--json").out)["states"]
    place = small_frames["geo"].select("MAFID", "TABBLKST", pl.col("RTYPE").alias("GEO"))
    units = small_frames["units"].join(place, on="MAFID")
    housing = units.filter(RTYPE="2", GEO="2")
    expected = {
        "persons": small_frames["persons"].join(place, on="MAFID"),
        "units": units,
        "housing_units": housing,
        "households": housing.filter(pl.col("HHT") != "0"),
    }
    assert len(states) == 51
    for state, rows in states.items():
        assert rows == {name: frame.filter(TABBLKST=state).height for name, frame in expected.items()}
    shown = phsafe_command("validate", us, small)
    assert "Rows by state (NOT PRIVATE)" in shown.out and "06 California" in shown.out


@pytest.fixture
def config(us_document, tmp_path):
    """A config file with control totals."""

    def make(totals):
        path = tmp_path / "config.json"
        budgets = {name: {key: float(v) for key, v in levels.items()} for name, levels in
                   us_document["privacy_budget"].items()}  # fmt: skip
        path.write_text(json.dumps(us_document | {"privacy_budget": budgets, "control_totals": totals}))
        return path

    return make


@pytest.mark.parametrize("command", COMMANDS)
def test_control_totals_are_compared(run, small, config, command, us, tmp_path):
    rows = phsafe.validate(us, small).states
    totals = {table: {state: rows[state][table] for state in ("06", "44")} for table in ("persons", "units")}
    wrong = totals | {"persons": {"06": totals["persons"]["06"] + 1, "44": totals["persons"]["44"] - 1}}
    refused = run(command, config(wrong), small)
    assert refused.code == 1
    if command == "validate":
        assert errors(refused) == {("every state has as many rows as its control total", "persons", 2)}
        stated = json.loads(refused.out)["states"]["06"]
        assert stated["persons_control_total"] == stated["persons"] + 1
    else:
        assert GENERIC in refused.err.replace("\n", " ")
    assert run(command, config(totals), small).code == 0
    if command == "release":
        for file in (tmp_path / "out").rglob("*"):
            assert file.is_dir() or "control" not in file.read_text()


def test_control_totals_are_shown_beside_the_rows(phsafe_command, small, config):
    shown = phsafe_command("validate", config({"units": {"06": 1}}), small)
    assert shown.code == 1 and "Units control" in shown.out


@pytest.mark.parametrize(
    ("totals", "sentence"),
    [
        ([], "control_totals: expected totals by state of the filter"),
        ({"geo": {"06": 1}}, "control_totals: expected totals by state of the filter"),
        ({"units": 7731}, "control_totals: expected totals by state of the filter"),
        ({"units": {"72": 7731}}, "control_totals: expected totals by state of the filter"),
        ({"units": {"06": 7731.5, "44": True}}, "control_totals, units: expected whole numbers"),
        ({"units": {"06": -7731}}, "control_totals, units: expected whole numbers"),
    ],
)
def test_bad_control_totals_are_refused_without_quoting_them(phsafe_command, small, config, totals, sentence):
    refused = phsafe_command("validate", config(totals), small)
    assert refused.code == 1
    assert sentence in refused.err.replace("\n", " ")
    assert "7731" not in refused.err


def test_solving_for_budgets_keeps_control_totals(phsafe_command, config, tmp_path):
    (tmp_path / "targets.json").write_text(json.dumps({"total": 1}))
    done = phsafe_command("solve", config({"units": {"06": 12}}), tmp_path / "targets.json", tmp_path / "solved.json")
    assert done.code == 0, done.err
    assert phsafe.Config.load(tmp_path / "solved.json").control_totals == {"units": {"06": 12}}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("name", "found"), [("mafid", "'mafid'"), (" MAFID ", "' MAFID '")])
def test_a_column_in_other_letters_gets_a_hint(run, us, small_frames, tmp_path, command, name, found):
    data = write(tmp_path / "data", small_frames | {"units": small_frames["units"].rename({"MAFID": name})})
    refused = run(command, us, data)
    assert refused.code == 1
    assert f"units: column MAFID is missing; found {found}, rename it to MAFID" in refused.err.replace("\n", " ")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["_06.parquet", "06.parquet.tmp", "late/06.parquet", ".06.parquet"])
def test_a_lost_part_is_refused_by_name(run, us, small_frames, tmp_path, command, name):
    data = tmp_path / "data"
    for table, frame in small_frames.items():
        (data / table).mkdir(parents=True)
        frame.write_parquet(data / table / "others.parquet")
    (data / "persons" / name).parent.mkdir(exist_ok=True)
    small_frames["persons"].write_parquet(data / "persons" / name)
    refused = run(command, us, data)
    assert refused.code == 1
    assert f"{data}/persons/{name}: expected only Parquet files" in refused.err.replace("\n", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_damage_in_a_state_outside_the_filter_stops_nothing(run, us, small_frames, tmp_path, command):
    """An eighth of the households move to Puerto Rico, and their records are damaged in every way."""
    far = pl.col("MAFID").cast(int) % 8 == 0
    frames = {
        name: frame.with_columns(
            pl.when(far).then(pl.lit("?")).otherwise(c).alias(c) for c in frame.columns if c != "MAFID"
        )
        for name, frame in small_frames.items()
    }
    frames["geo"] = frames["geo"].with_columns(TABBLKST=pl.when(far).then(pl.lit("72")).otherwise("TABBLKST"))
    frames["units"] = pl.concat([frames["units"], frames["units"].filter(far)])
    done = run(command, us, write(tmp_path / "data", frames), "--allow-empty-states")
    assert done.code == 0, done.out + done.err
    if command == "validate":
        rules = {f["rule"] for f in json.loads(done.out)["findings"] if f["severity"] == "note"}
        assert "records of states outside the filter" in rules
