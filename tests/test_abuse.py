"""What a hostile or careless hand may give: names, links, sizes, numbers, depth, open umasks, formulas."""

import json
import os
import re
import shutil
import stat

import polars as pl
import pytest

from phsafe import exact_counts as output
from phsafe import scratch
from phsafe.engines import duckdb as engine
from phsafe.engines.partitions import BucketPartition
from phsafe.privacy.ledger import Ledger

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
    """A config of two states and one tabulation at one level: quick."""
    for name, levels in us_document["privacy_budget"].items():
        for key in levels:
            levels[key] = 0.01 if (name, key) == ("PH2", "state_*") else 0
    return json.loads(json.dumps(us_document | {"state_filter": ["44", "56"]}, default=float))


@pytest.fixture
def config(tmp_path, few):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(few))
    return path


def in_words(outcome, *words):
    """A refusal: code 1, a sentence that says one of these, no traceback, no page of digits."""
    assert outcome.code == 1, outcome
    assert "phsafe: error: " in outcome.err
    assert any(word in outcome.err for word in words), outcome.err[-1000:]
    assert "Traceback" not in outcome.err and "internal fault" not in outcome.err
    assert len(outcome.err) < 5000


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NAMES)
def test_every_file_may_have_any_name(phsafe_command, few, small, tmp_path, kind):
    name = NAMES[kind]
    config, data, out, temp = (tmp_path / f"{name}{end}" for end in (".json", "", ".out", ".temp"))
    ledger = tmp_path / f"{name}.ledger"
    config.write_text(json.dumps(few))
    shutil.copytree(small, data)
    temp.mkdir()
    words = ["--ledger", ledger, "--temp-dir", temp, "--skip-validation"]
    done = phsafe_command("release", config, data, out, *words)
    assert done.code == 0, done.err
    assert phsafe_command("check", out, "--ledger", ledger).code == 0
    assert phsafe_command("ledger", "verify", ledger).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [config.name, data.name, out.name, temp.name, ledger.name, f"{ledger.name}.key"]
    )
    assert list(temp.iterdir()) == []


def test_bytes_that_are_no_text(phsafe_command, config, small, tmp_path):
    """Libraries take names as UTF-8: others are refused before anything is charged."""
    out, ledger = tmp_path / "out\udcff", tmp_path / "l\udcff"
    in_words(phsafe_command("release", config, small, out, "--ledger", ledger), "expected a path in UTF-8")
    assert not ledger.exists()
    done = phsafe_command("release", config, small, tmp_path / "out", "--ledger", ledger, "--skip-validation")
    assert done.code == 0, done.err


@pytest.mark.parametrize("name", ["..", ".", "", "a/..", "/"])
def test_names_that_mean_another_folder(phsafe_command, config, small, tmp_path, monkeypatch, name):
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path)
    in_words(phsafe_command("release", config, small, name, "--ledger", "l"), "doesn't exist yet")
    assert not (tmp_path / "l").exists()


@pytest.mark.parametrize("kind", ["folder", "dangling", "loop"])
def test_a_link_planted_at_the_output(phsafe_command, config, small, tmp_path, kind):
    target, out = tmp_path / "target", tmp_path / "out"
    if kind == "folder":
        target.mkdir()
    out.symlink_to(out if kind == "loop" else target)
    for command in (
        ["release", config, small, out, "--ledger", tmp_path / "l"],
        ["tabulate", config, small, out],
    ):
        in_words(phsafe_command(*command), "doesn't exist yet")
    assert out.is_symlink() and (not target.exists() or list(target.iterdir()) == [])
    assert not (tmp_path / "l").exists()


def test_a_link_planted_in_the_temp_folder(phsafe_command, config, small, tmp_path):
    """Under a name of ours: it is neither followed nor removed."""
    temp, precious = tmp_path / "temp", tmp_path / "precious"
    temp.mkdir()
    precious.mkdir()
    (precious / "mine").write_text("mine")
    planted = temp / f"phsafe-temp-{''.join(scratch._places())}{'0' * 16}"
    planted.symlink_to(precious)
    done = phsafe_command("tabulate", config, small, tmp_path / "out", "--temp-dir", temp, "--skip-validation")
    assert done.code == 0
    assert (precious / "mine").read_text() == "mine" and list(temp.iterdir()) == [planted]


# --- sizes, numbers, depth ----------------------------------------------------------------------------------------


def test_a_config_of_100_mb(phsafe_command, tmp_path):
    for name in ("a.json", "a.toml"):
        with (tmp_path / name).open("wb") as stream:
            stream.truncate(100_000_000)
        in_words(phsafe_command("budget", tmp_path / name), "larger file")


HOSTILE = {
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


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("field", ["budget", "tau", "states"])
def test_hostile_numbers_in_a_config(phsafe_command, few, tmp_path, field, kind):
    if field == "budget":
        few["privacy_budget"]["PH2"]["state_*"] = "MARK"
    else:
        few["tau" if field == "tau" else "state_filter"] = "MARK" if field == "states" else dict(few["tau"], PH2="MARK")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(few).replace('"MARK"', HOSTILE[kind]))
    in_words(phsafe_command("budget", path), "config.json", "expected")


@pytest.mark.parametrize("kind", ["whole", "exponent", "small exponent", "infinite", "nan", "deep"])
def test_hostile_numbers_in_a_manifest(phsafe_command, config, small, tmp_path, kind):
    out = tmp_path / "out"
    assert phsafe_command("release", config, small, out, "--ledger", tmp_path / "l", "--skip-validation").code == 0
    manifest = out / "manifest.json"
    manifest.write_text(re.sub(r'"rho": [0-9.]+', f'"rho": {HOSTILE[kind]}', manifest.read_text()))
    in_words(phsafe_command("check", out), "manifest", "privacy statement")
    in_words(phsafe_command("estimate", out, tmp_path / "tables"), "manifest", "privacy statement")


@pytest.mark.parametrize("value", [DIGITS[:100_000], "1e999999999", "1e-999999999", "nan", "inf", "-1", "0", "0x1"])
def test_hostile_numbers_on_the_command_line(phsafe_command, tmp_path, config, small, value):
    cap = phsafe_command("ledger", "init", tmp_path / "l", "--cap", value)
    made = phsafe_command("synth", tmp_path / "s", "--households", value)
    count = phsafe_command("tabulate", config, small, tmp_path / "t", "--threads", value)
    for outcome in (cap, made, count):
        assert outcome.code in (1, 2) and "Traceback" not in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_a_million_digits_in_a_record(phsafe_command, config, small, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(small, data)
    with (data / "persons.csv").open("a") as stream:
        stream.write(f"3,{DIGITS},5,1,01,20\n")
    outcome = phsafe_command("release", config, data, tmp_path / "out", "--ledger", tmp_path / "l")
    in_words(outcome, "validation", "can't be read", "expected CSV")
    assert "99999" not in outcome.err
    assert Ledger.open(tmp_path / "l").entries() == ()


def test_letters_of_control_in_a_record(phsafe_command, config, small, tmp_path):
    """One of them stands between the values of a record that nobody knows, when large households are ordered."""
    data = tmp_path / "data"
    shutil.copytree(small, data)
    unit = (data / "units.csv").read_text().splitlines()[1].split(",")[1]
    with (data / "persons.csv").open("a") as stream:
        stream.write("".join(f"3,{unit},5,1,01,2{letter}5\n" for letter in "\x1f\x1e\x01\x02\x7f" * 10))
    outcome = phsafe_command("release", config, data, tmp_path / "out", "--ledger", tmp_path / "l")
    in_words(outcome, "validation", "expected CSV")


# --- what the umask may not open ----------------------------------------------------------------------------------


def test_everything_confidential_is_the_owner_s_under_an_open_umask(
    phsafe_command, config, small, small_frames, tmp_path, monkeypatch
):
    data, seen = tmp_path / "data", []
    data.mkdir()
    for name, frame in small_frames.items():
        (pl.concat([frame, frame.head(1)]) if name == "units" else frame).write_csv(data / f"{name}.csv")
    places = ["phsafe-temp-*", "phsafe-temp-*/persons.rows", ".counts.*"]

    def mode_of(path):
        return stat.S_IMODE(path.stat().st_mode)

    def spy(module, name):
        really = getattr(module, name)

        def look(*words):
            seen.extend((place, mode_of(path)) for place in places for path in tmp_path.glob(place))
            return really(*words)

        monkeypatch.setattr(module, name, look)

    # At these moments there are records in temporary files, and counts in a folder without its name.
    spy(BucketPartition, "__call__")
    spy(output, "write_table")
    monkeypatch.setattr(engine, "BUCKET_ROWS", 100)
    before = os.umask(0)
    try:
        words = ["--skip-validation", "--temp-dir", tmp_path]
        released = phsafe_command("release", config, small, tmp_path / "out", "--ledger", tmp_path / "l", *words)
        counted = phsafe_command("tabulate", config, small, tmp_path / "counts", *words)
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
    """A spreadsheet runs what starts with = + - @ or a tab; a number below 0 is one, and stays a number."""
    out, tables = tmp_path / "out", tmp_path / "tables"
    assert phsafe_command("release", config, small, out, "--ledger", tmp_path / "l", "--skip-validation").code == 0
    assert phsafe_command("estimate", out, tables).code == 0
    files = [*out.rglob("*.csv"), *tables.rglob("*.csv")]
    assert len(files) > 1
    for file in files:
        for line in file.read_text().splitlines():
            for field in line.split("|"):
                assert field[:1] not in "=+@\t\r" or field == "", (file, field)
                assert not field.startswith("-") or re.fullmatch(r"-[0-9.]+", field), (file, field)
