"""`phsafe tabulate`, from words to files."""

import json
import shutil
import stat
import subprocess
import sys

import polars as pl
import pytest

MARKER = "S3CRET"


@pytest.fixture
def data(tmp_path, small):
    return shutil.copytree(small, tmp_path / "data", ignore=shutil.ignore_patterns("expected*"))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def same_on_every_cell(found, expected):
    assert set(expected) <= set(found)
    assert {key: n for key, n in found.items() if n} == {key: n for key, n in expected.items() if n}


def refuse(outcome, tmp_path, *words, left=("data",)):
    """Exit 1, the reasons on standard error, nothing written, no traceback and no record."""
    assert outcome.code == 1
    assert outcome.out == ""
    for word in words:
        assert word in outcome.err
    assert all(line.startswith("phsafe: error: ") for line in outcome.err.splitlines() if "error" in line)
    assert "Traceback" not in outcome.err
    assert "internal error" not in outcome.err
    assert MARKER not in outcome.err
    assert names(tmp_path) == sorted(left)


def test_known_answers(phsafe_command, us, small, tmp_path, expected, read_folder):
    outcome = phsafe_command("tabulate", us, small, tmp_path / "cut")
    assert outcome.code == 0
    assert outcome.out == ""
    assert "NOT PRIVATE" in outcome.err
    assert "tabulate: " in outcome.err
    assert phsafe_command("tabulate", us, small, tmp_path / "all", "--no-truncate").code == 0
    same_on_every_cell(read_folder(tmp_path / "cut"), expected(small / "expected_truncated_counts.csv"))
    same_on_every_cell(read_folder(tmp_path / "all"), expected(small / "expected_counts.csv"))
    assert len(read_folder(tmp_path / "cut")) == 12_688
    assert "NOT PRIVATE" in (tmp_path / "cut" / "NOT_PRIVATE").read_text()


def test_parity_in_a_separate_process(us, parity, tmp_path, expected, read_folder):
    """As a user runs it; under an open umask nobody else may read what it writes."""
    run = subprocess.run(
        [sys.executable, "-c", "import phsafe.cli as c; c.main()", "tabulate", us, parity, tmp_path / "out"],
        capture_output=True, text=True, check=False, umask=0,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout == ""
    assert read_folder(tmp_path / "out") == expected(parity / "truncated_counts_2020.csv")
    for path in (tmp_path / "out", *(tmp_path / "out").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_files_of_the_release_layout(phsafe_command, pr, us_document, small, tmp_path):
    config = tmp_path / "config.json"
    document = us_document | {"state_filter": ["44"]}
    document["privacy_budget"]["PH6"] = {"usa_*": 0, "state_*": 0}
    config.write_text(json.dumps(document, default=float))
    assert phsafe_command("tabulate", config, small, tmp_path / "out", "--skip-validation").code == 0
    assert names(tmp_path / "out") == sorted(
        [
            "NOT_PRIVATE",
            "PH1_num",
            "PH1_denom",
            "PH2",
            "PH3",
            "PH4",
            "PH5_num",
            "PH5_denom",
            "PH7",
            "PH8_num",
            "PH8_denom",
        ]
    )
    lines = (tmp_path / "out" / "PH8_denom" / "ph8_denom.csv").read_text().splitlines()
    assert lines[0] == "REGION_ID|REGION_TYPE|ITERATION_CODE|PH8_DENOM_DATA_CELL|COUNT"
    assert lines[1].startswith("1|USA|*|2|")
    assert len(lines) == 1 + 2 * 10 * 2
    lines = (tmp_path / "out" / "PH2" / "ph2.csv").read_text().splitlines()
    assert lines[0] == "REGION_ID|REGION_TYPE|PH2_DATA_CELL|COUNT"


def test_every_reason_at_once(phsafe_command, data, tmp_path, us_document):
    """A bad config, bad data and an existing output are all told in one go."""
    config = tmp_path / "config.json"
    budgets = us_document["privacy_budget"]
    bad = us_document | {
        "privacy_budget": {k: v for k, v in budgets.items() if k != "PH2"} | {"PH9": {}},
        "tau": us_document["tau"] | {"PH3": 0},
        "state_filter": ["44", "72", "44", "99"],
    }
    config.write_text(json.dumps(bad, default=float))
    (data / "persons.csv").unlink()
    units = (data / "units.csv").read_text()
    (data / "units.csv").write_text(units.replace("TEN", MARKER, 1))
    (data / "geo.csv").write_bytes(b"\xff" + MARKER.encode())
    out = tmp_path / "out"
    out.mkdir()
    outcome = phsafe_command("tabulate", config, data, out)
    refuse(
        outcome, tmp_path,
        "'PH9'", "PH2 missing", "tau, PH3", "got '44' repeated", "'99'", "Puerto Rico (72) alone",
        "persons.csv", "units: column TEN is missing", "geo.csv: expected CSV text", "doesn't exist yet",
        left=("data", "config.json", "out"),
    )  # fmt: skip
    assert names(out) == []


@pytest.mark.parametrize(
    ("find", "replace", "word"),
    [
        ('"PH2"', '"PH22"', "PH22"),
        ("0.002619", '"x"', "usa_*"),
        ("0.002619", "-0.1", "usa_*"),
        ("0.002619", "NaN", "usa_*"),
        ("0.002619", "Infinity", "usa_*"),
        ("0.002619", "1e999", "usa_*"),
        ('"PH1_num": 10', '"PH1_num": 0', "tau, PH1_num"),
        ('"01",', '"03",', "'03'"),
        ('"02",', '"01",', "repeated"),
        ('"56"', '"72"', "alone"),
        ('"PH3":', '"PH2":', "more than once"),
        ("{", "[" * 100_000, "nested too deeply"),
        ("{", "", "expected JSON"),
    ],
)
def test_bad_configs(phsafe_command, us, data, tmp_path, find, replace, word):
    config = tmp_path / "config.json"
    text = us.read_text()
    assert find in text
    config.write_text(text.replace(find, replace, 1))
    refuse(
        phsafe_command("tabulate", config, data, tmp_path / "out"),
        tmp_path,
        word,
        left=("data", "config.json"),
    )


def test_national_budgets_in_a_puerto_rico_config_are_refused(phsafe_command, pr, data, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(pr.read_text().replace('"usa_*": 0.0', '"usa_*": 0.1', 1))
    outcome = phsafe_command("tabulate", config, data, tmp_path / "out")
    refuse(outcome, tmp_path, "has no national levels", left=("data", "config.json"))


def persons_of_wrong_types(data):
    ages = {
        "RTYPE": [3],
        "MAFID": [100_000_001],
        "QAGE": [1.5],
        "CENHISP": [1],
        "CENRACE": [1],
        "RELSHIP": [MARKER],
    }
    pl.DataFrame(ages).write_parquet(data / "persons.parquet")


def spoil(persons, how):
    """Replace the persons file; its lines end in CRLF."""
    text = persons.read_bytes()
    assert text.count(b"\r\n") == text.count(b"\n") == 1786
    persons.unlink()
    if isinstance(how, bytes):
        persons.write_bytes(text + how)
    else:
        how(persons, text)


def as_parquet_too(persons, text):
    persons.write_bytes(text)
    pl.read_csv(text, infer_schema=False).write_parquet(persons.with_suffix(".parquet"))


BAD_DATA = {
    "missing": (lambda persons, text: None, "got none of them"),
    "folder": (lambda persons, text: persons.mkdir(), "Is a directory"),
    "two forms": (as_parquet_too, "persons.csv and persons.parquet"),
    "ragged": (f"3,{MARKER}\r\n".encode(), "persons.csv: expected CSV"),
    "long": (f"3,1,1,1,01,20,{MARKER}\r\n".encode(), "persons.csv: expected CSV"),
    "binary": (MARKER.encode() + bytes(range(256)) * 50, "persons.csv"),
    "encoding": (MARKER.encode() + b"\xe9,1,1,1,01,20\r\n", "persons.csv: expected CSV in UTF-8"),
    "line end": (f"3,1,1,1,01,{MARKER}\n".encode(), "consistent line endings"),
    "utf-16": (lambda persons, text: persons.write_bytes(text.decode().encode("utf-16")), "UTF-8"),
    "no header": (
        lambda persons, text: persons.write_bytes(text.split(b"\n", 1)[1]),
        "column RELSHIP is missing",
    ),
    "column": (
        lambda persons, text: persons.write_bytes(text.replace(b"QAGE", MARKER.encode(), 1)),
        "persons: column QAGE is missing",
    ),
    "type": (
        lambda persons, text: persons_of_wrong_types(persons.parent),
        "expected column QAGE as integers, got float64",
    ),
    "empty": (lambda persons, text: persons.write_bytes(b""), "expected a header line"),
    "no parquet": (
        lambda persons, text: persons.with_suffix(".parquet").write_bytes(text),
        "expected a Parquet file",
    ),
}


@pytest.mark.parametrize("how", BAD_DATA)
def test_bad_data(phsafe_command, us, data, tmp_path, how):
    change, word = BAD_DATA[how]
    spoil(data / "persons.csv", change)
    refuse(phsafe_command("tabulate", us, data, tmp_path / "out", "--skip-validation"), tmp_path, word)


def test_an_unreadable_file_is_refused(powerless, us, data, tmp_path):
    (data / "geo.csv").chmod(0)
    said = powerless("from phsafe.cli import main; main()", "tabulate", us, data, tmp_path / "out")
    assert "Permission denied" in said and "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_no_config_and_no_data(phsafe_command, us, data, tmp_path):
    outcome = phsafe_command("tabulate", tmp_path / "c.json", tmp_path / "d", tmp_path / "no" / "out")
    refuse(outcome, tmp_path, "c.json: can't read the config", "d: expected a folder", "create it first")


@pytest.mark.parametrize("kind", ["folder", "file", "link", "dangling"])
def test_an_existing_output_is_refused(phsafe_command, us, data, tmp_path, kind):
    out, target = tmp_path / "out", tmp_path / "target"
    target.mkdir()
    if kind == "folder":
        out.mkdir()
    elif kind == "file":
        out.write_text("mine")
    else:
        out.symlink_to(target if kind == "link" else tmp_path / "nowhere")
    outcome = phsafe_command("tabulate", us, data, out)
    refuse(outcome, tmp_path, "doesn't exist yet", left=("data", "out", "target"))
    assert names(target) == []
    assert kind != "file" or out.read_text() == "mine"


def test_unusual_characters_in_every_path(phsafe_command, us, data, tmp_path, small, expected, read_folder):
    odd = "a*b[c]?'d\"\n{e};%s [bold]é"
    strange = tmp_path / odd
    data.rename(strange)
    config = tmp_path / f"{odd}.json"
    shutil.copy(us, config)
    out = tmp_path / f"out {odd}"
    outcome = phsafe_command("tabulate", config, strange, out, "--skip-validation")
    assert outcome.code == 0, outcome.err
    same_on_every_cell(read_folder(out), expected(small / "expected_truncated_counts.csv"))
    assert odd in outcome.err


def test_a_failure_while_writing_leaves_nothing(phsafe_command, us, data, tmp_path, monkeypatch):
    from phsafe.pipeline import exact_counts as output

    calls = []

    def fail(*args):
        calls.append(args)
        if len(calls) == 5:
            raise OSError(28, "No space left on device")
        return write(*args)

    write = output.write_table
    monkeypatch.setattr(output, "write_table", fail)
    outcome = phsafe_command("tabulate", us, data, tmp_path / "out", "--skip-validation")
    refuse(outcome, tmp_path, "No space left on device")


@pytest.mark.parametrize(
    ("options", "word"),
    [(["--memory-limit", "much"], "much"), (["--temp-dir", "/nowhere/at/all"], "/nowhere/at/all")],
)
def test_engine_options(phsafe_command, us, data, tmp_path, options, word):
    refuse(phsafe_command("tabulate", us, data, tmp_path / "out", *options), tmp_path, word)
