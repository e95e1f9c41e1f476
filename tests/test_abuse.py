"""Malicious or careless input: names, links, sizes, numbers, nesting, open umasks, formulas."""

import json
import os
import re
import shutil
import stat

import polars as pl
import pytest

from phsafe.engines import partitions
from phsafe.pipeline import exact_counts as output
from phsafe.privacy.ledger import Ledger
from phsafe.system import scratch

NAMES = {
    "quotes": 'it\'s "quoted" `x`',
    "newline": "a\nb\rc",
    "shell": "a;rm -rf $(x) && b|c>d #e",
    "sql": "'; DROP TABLE entries; --",
    "glob": "[a]*?{b}",
    "option": "-rf",
    "dots": "..a",
    "markup": "[red]a <img src=x onerror=alert(1)>",
    "percent": "%s%n%00{0}",
    "direction": "a\u202eb é 名",
    "blank": " ",
}
DIGITS = "9" * 1_000_000
DEEP = "[" * 100_000


@pytest.fixture
def few(us_document) -> dict:
    """A small, fast config: two states and one tabulation at one level."""
    for name, levels in us_document["privacy_budget"].items():
        for key in levels:
            levels[key] = 0.01 if (name, key) == ("PH2", "state_*") else 0
    return json.loads(json.dumps(us_document | {"state_filter": ["44", "56"]}, default=float))


@pytest.fixture
def config(tmp_path, few):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(few))
    return path


def assert_refused(outcome, *texts):
    """Assert a refusal: exit code 1 and a short message with one of these texts, without a traceback."""
    assert outcome.code == 1, outcome
    assert "phsafe: error: " in outcome.err
    assert any(text in outcome.err for text in texts), outcome.err[-1000:]
    assert "Traceback" not in outcome.err and "internal error" not in outcome.err
    assert len(outcome.err) < 5000


def new_ledger(folder):
    return "--ledger", folder / "l", "--new-ledger", "--skip-validation"


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", NAMES)
def test_every_file_may_have_any_name(phsafe_command, few, small, tmp_path, case):
    name = NAMES[case]
    config, data, out, temp = (tmp_path / f"{name}{end}" for end in (".json", "", ".out", ".temp"))
    ledger = tmp_path / f"{name}.ledger"
    config.write_text(json.dumps(few))
    shutil.copytree(small, data)
    temp.mkdir()
    options = ["--ledger", ledger, "--new-ledger", "--temp-dir", temp, "--skip-validation"]
    done = phsafe_command("release", config, data, out, *options)
    assert done.code == 0, done.err
    assert phsafe_command("check", out, "--ledger", ledger).code == 0
    assert phsafe_command("ledger", "verify", ledger).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [config.name, data.name, out.name, temp.name, ledger.name, f"{ledger.name}.key", f"{ledger.name}.pub"]
    )
    assert list(temp.iterdir()) == []


def test_names_that_are_not_utf_8(phsafe_command, config, small, tmp_path):
    """Libraries need UTF-8 names, so an output with another name is refused before anything is charged."""
    out, ledger = tmp_path / "out\udcff", tmp_path / "l\udcff"
    words = ("--ledger", ledger, "--new-ledger", "--skip-validation")
    assert_refused(phsafe_command("release", config, small, out, *words), "expected a path in UTF-8")
    assert not ledger.exists()
    done = phsafe_command("release", config, small, tmp_path / "out", *words)
    assert done.code == 0, done.err


@pytest.mark.parametrize("name", ["..", ".", "", "a/..", "/"])
def test_output_names_that_refer_to_existing_folders(phsafe_command, config, small, tmp_path, monkeypatch, name):
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    assert_refused(phsafe_command("release", config, small, name, "--ledger", "l", "--new-ledger"), "doesn't exist yet")
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize("link", ["folder", "dangling", "loop"])
def test_a_link_planted_at_the_output(phsafe_command, config, small, tmp_path, link):
    target, out = tmp_path / "target", tmp_path / "out"
    if link == "folder":
        target.mkdir()
    out.symlink_to(out if link == "loop" else target)
    for command in (
        ["release", config, small, out, "--ledger", tmp_path / "l", "--new-ledger"],
        ["tabulate", config, small, out],
    ):
        assert_refused(phsafe_command(*command), "doesn't exist yet")
    assert out.is_symlink() and (not target.exists() or list(target.iterdir()) == [])
    assert not (tmp_path / "l").exists()


def test_a_link_planted_in_the_temp_folder(phsafe_command, config, small, tmp_path):
    """Even with a name like ours, it is neither followed nor removed."""
    temp, precious = tmp_path / "temp", tmp_path / "precious"
    temp.mkdir()
    precious.mkdir()
    (precious / "mine").write_text("mine")
    planted = temp / f"phsafe-temp-{''.join(scratch._machine_tags())}{'0' * 16}"
    planted.symlink_to(precious)
    done = phsafe_command("tabulate", config, small, tmp_path / "out", "--temp-dir", temp, "--skip-validation")
    assert done.code == 0
    assert (precious / "mine").read_text() == "mine" and list(temp.iterdir()) == [planted]


# --- sizes, numbers, nesting ----------------------------------------------------------------------------------------


def test_a_config_of_100_mb(phsafe_command, tmp_path):
    for name in ("a.json", "a.toml"):
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(100_000_000)
        assert_refused(phsafe_command("budget", tmp_path / name), "larger file")


MALICIOUS_NUMBERS = {
    "whole": DIGITS[:900_000],
    "decimal": f"0.{DIGITS[:900_000]}",
    "exponent": "1e999999999",
    "small exponent": "1e-999999999",
    "absurd exponent": "1e" + "9" * 10_000,
    "infinite": "Infinity",
    "nan": "NaN",
    "deep": DEEP,
    "deep objects": '{"a":' * 100_000,
    "negative": "-1",
}


@pytest.mark.parametrize("case", MALICIOUS_NUMBERS)
@pytest.mark.parametrize("field", ["budget", "tau", "states"])
def test_malicious_numbers_in_a_config(phsafe_command, few, tmp_path, field, case):
    if field == "budget":
        few["privacy_budget"]["PH2"]["state_*"] = "MARK"
    else:
        few["tau" if field == "tau" else "state_filter"] = "MARK" if field == "states" else dict(few["tau"], PH2="MARK")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(few).replace('"MARK"', MALICIOUS_NUMBERS[case]))
    assert_refused(phsafe_command("budget", path), "config.json", "expected")


@pytest.mark.parametrize("case", ["whole", "exponent", "small exponent", "infinite", "nan", "deep"])
def test_malicious_numbers_in_a_manifest(phsafe_command, config, small, tmp_path, case):
    out = tmp_path / "out"
    assert phsafe_command("release", config, small, out, *new_ledger(tmp_path)).code == 0
    manifest = out / "manifest.json"
    manifest.write_text(re.sub(r'"rho": [0-9.]+', f'"rho": {MALICIOUS_NUMBERS[case]}', manifest.read_text()))
    assert_refused(phsafe_command("check", out), "manifest", "privacy statement")
    assert_refused(phsafe_command("estimate", out, tmp_path / "tables"), "manifest", "privacy statement")


@pytest.mark.parametrize("value", [DIGITS[:100_000], "1e999999999", "1e-999999999", "nan", "inf", "-1", "0", "0x1"])
def test_malicious_numbers_on_the_command_line(phsafe_command, tmp_path, config, small, value):
    cap = phsafe_command("ledger", "init", tmp_path / "l", "--cap", value)
    synthetic = phsafe_command("synth", tmp_path / "s", "--households", value)
    count = phsafe_command("tabulate", config, small, tmp_path / "t", "--threads", value)
    for outcome in (cap, synthetic, count):
        assert outcome.code in (1, 2) and "Traceback" not in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_million_digits_in_a_record(phsafe_command, config, small, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(small, data)
    with (data / "persons.csv").open("a") as stream:
        stream.write(f"3,{DIGITS},5,1,01,20\n")
    outcome = phsafe_command("release", config, data, tmp_path / "out", "--ledger", tmp_path / "l", "--new-ledger")
    assert_refused(outcome, "validation", "can't be read", "expected CSV")
    assert "99999" not in outcome.err
    assert Ledger.open(tmp_path / "l").charges() == ()


def test_control_characters_in_a_record(phsafe_command, config, small, tmp_path):
    """One of them separates the values of records with unknown codes when large households are ordered."""
    data = tmp_path / "data"
    shutil.copytree(small, data)
    unit = (data / "units.csv").read_text().splitlines()[1].split(",")[1]
    with (data / "persons.csv").open("a") as stream:
        stream.write("".join(f"3,{unit},5,1,01,2{letter}5\n" for letter in "\x1f\x1e\x01\x02\x7f" * 10))
    outcome = phsafe_command("release", config, data, tmp_path / "out", "--ledger", tmp_path / "l", "--new-ledger")
    assert_refused(outcome, "validation", "expected CSV")


# --- open umasks ----------------------------------------------------------------------------------


def test_confidential_files_are_private_under_an_open_umask(
    phsafe_command, config, small, small_frames, tmp_path, monkeypatch
):
    data, seen = tmp_path / "data", []
    data.mkdir()
    for name, frame in small_frames.items():
        (pl.concat([frame, frame.head(1)]) if name == "units" else frame).write_csv(data / f"{name}.csv")
    patterns = ["phsafe-temp-*", "phsafe-temp-*/persons.rows", ".counts.*"]

    def mode_of(path):
        return stat.S_IMODE(path.stat().st_mode)

    def spy(module, name):
        original = getattr(module, name)

        def observe(*arguments):
            seen.extend((pattern, mode_of(path)) for pattern in patterns for path in tmp_path.glob(pattern))
            return original(*arguments)

        monkeypatch.setattr(module, name, observe)

    # At these points, records are in temporary files and counts are in a folder that isn't renamed yet.
    spy(partitions.BucketPartition, "__call__")
    spy(output, "write_table")
    monkeypatch.setattr(partitions, "BUCKET_ROWS", 100)
    before = os.umask(0)
    try:
        options = ["--skip-validation", "--temp-dir", tmp_path]
        released = phsafe_command("release", config, small, tmp_path / "out", *new_ledger(tmp_path), *options)
        counted = phsafe_command("tabulate", config, small, tmp_path / "counts", *options)
        phsafe_command("validate", config, data, "--examples", tmp_path / "keys.csv", "--temp-dir", tmp_path)
    finally:
        os.umask(before)
    assert released.code == counted.code == 0
    assert set(seen) == {("phsafe-temp-*", 0o700), ("phsafe-temp-*/persons.rows", 0o600), (".counts.*", 0o700)}
    confidential = [tmp_path / name for name in ("l", "l.key", "keys.csv", "counts")]
    for path in [*confidential, *(tmp_path / "counts").rglob("*")]:
        assert mode_of(path) == (0o700 if path.is_dir() else 0o600), path


# --- formulas -----------------------------------------------------------------------------------------------------


def test_no_published_cell_is_a_formula(phsafe_command, config, small, tmp_path):
    """Spreadsheets evaluate fields that start with = + - @ or a tab; negative numbers are fine."""
    out, tables = tmp_path / "out", tmp_path / "tables"
    assert phsafe_command("release", config, small, out, *new_ledger(tmp_path)).code == 0
    assert phsafe_command("estimate", out, tables).code == 0
    files = [*out.rglob("*.csv"), *tables.rglob("*.csv")]
    assert len(files) > 1
    for file in files:
        for line in file.read_text().splitlines():
            for field in line.split("|"):
                assert field[:1] not in "=+@\t\r" or field == "", (file, field)
                assert not field.startswith("-") or re.fullmatch(r"-[0-9.]+", field), (file, field)
