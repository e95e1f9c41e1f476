"""`--json`, `--quiet` and `--log`, on every command."""

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from phsafe.cli import main
from phsafe.cli.app import app
from phsafe.cli.json_documents import DOCUMENTS
from phsafe.cli.output import OUTPUT, RunLog
from phsafe.configs.shipped import shipped_names
from phsafe.privacy.ledger import Ledger

MARKER = "S3CRET"
NEW_LEDGER = ("--new-ledger", "--ledger")
ROOT = Path(__file__).resolve().parents[2]


def leaves():
    """Every command with its name, those of the ledger included."""
    for name, command in typer.main.get_command(app).commands.items():
        children = getattr(command, "commands", None)
        yield from (((f"{name} {word}", child) for word, child in children.items()) if children else ((name, command),))


LEAVES = dict(leaves())


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_has_the_options(name):
    options = {option for parameter in LEAVES[name].params for option in parameter.opts}
    assert {"--json", "--quiet", "--log"} <= options


def test_every_document_is_declared():
    assert DOCUMENTS.keys() == LEAVES.keys()


@pytest.fixture(scope="module")
def home(tmp_path_factory, small):
    """Outputs that commands read: a release with its ledger and finished tables."""
    folder = tmp_path_factory.mktemp("home")
    for words in (
        ("release", ROOT / "examples" / "us.json", small, folder / "release", *NEW_LEDGER, folder / "x.ledger"),
        ("estimate", folder / "release", folder / "tables", "--method", "independent"),
    ):
        done = subprocess.run([sys.executable, "-m", "phsafe", *map(str, words)], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    return folder


#: Command → its words; IN is a folder with earlier outputs, OUT a new name, US the config and SMALL the data.
CALLS = {
    "demo": "OUT",
    "synth": "OUT --households 50 --states 44",
    "pums": "OUT ACS",
    "validate": "US SMALL",
    "tabulate": "US SMALL OUT",
    "release": "US SMALL OUT --new-ledger --ledger OUT.ledger",
    "accuracy": "US SMALL OUT --trials 2 --estimate-trials 0 --i-know-this-is-public --jobs 1",
    "check": "IN/release",
    "estimate": "IN/release OUT --method independent",
    "interval": "IN/release PH2[US,2]+PH2[US,5]",
    "report": "IN/release OUT.html --estimates IN/tables",
    "registry": "IN/release OUT.yaml",
    "config": "",
    "budget": "US",
    "solve": "US TARGETS OUT.json",
    "workbook": "US OUT.xlsx",
    "audit": "--trials 1000",
    "ledger init": "OUT.ledger --cap 1",
    "ledger amend": "NEW.ledger --cap 3 --by us --reason more",
    "ledger import": "NEW.ledger --amount 0.5 --by us --reason earlier",
    "ledger note": "NEW.ledger --by us --text seen",
    "ledger show": "IN/x.ledger",
    "ledger verify": "IN/x.ledger",
}


@pytest.fixture
def words_of(home, us, small, tmp_path):
    Ledger.create(tmp_path / "new.ledger", 1)
    (tmp_path / "targets.json").write_text('{"moe": {"PH3": {"state_A-G": 40}}}')
    acs = ROOT / "tests" / "data" / "acs2018"
    places = {
        "IN": home, "OUT": tmp_path / "out", "US": us, "SMALL": small, "TARGETS": tmp_path / "targets.json",
        "NEW": tmp_path / "new", "ACS": min(acs.glob("*.zip"), key=lambda path: path.stat().st_size),
    }  # fmt: skip

    def fill(name):
        words = []
        for word in CALLS[name].split():
            start = next((place for place in places if word.startswith(place)), None)
            words.append(str(places[start]) + word.removeprefix(start) if start else word)
        return [*name.split(), *words]

    return fill


def read(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_every_command_is_called_below():
    assert CALLS.keys() | {"explore"} == LEAVES.keys()


@pytest.mark.parametrize("name", CALLS)
def test_one_document_no_notices_and_a_log(name, phsafe_command, words_of, tmp_path):
    log = tmp_path / "run.log"
    outcome = phsafe_command(*words_of(name), "--json", "--quiet", "--log", log)
    document = json.loads(outcome.out)
    assert list(document) == [key for key, meaning in DOCUMENTS[name].items() if not meaning.startswith("with --")]
    # Two trials are too few for a verdict on noise, and a thousand for a proof.
    code = outcome.code if name in ("accuracy", "audit") else 0
    assert (outcome.code, outcome.err if code == 0 else "") == (code, "")
    lines = read(log)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert (lines[0]["event"], lines[-1]["event"]) == ("start", "end")
    assert {"phsafe", "opendp", "duckdb", "python"} <= set(lines[0]["versions"])
    assert lines[-1]["exit_code"] == outcome.code
    for line in lines:
        assert {"format", "time", "run", "command", "event", "level"} <= set(line)
        assert (line["format"], line["command"], line["run"]) == ("phsafe-log/1", name, lines[0]["run"])


def test_options_add_the_keys_that_are_declared(phsafe_command, words_of, tmp_path):
    compared = json.loads(phsafe_command(*words_of("budget"), "--compare", "--finished", "--json").out)
    assert list(compared) == [key for key, meaning in DOCUMENTS["budget"].items() if meaning.startswith("with --")]
    assert all(list(mode) == ["total", "levels"] for mode in compared["modes"].values())
    solved = json.loads(phsafe_command(*words_of("solve"), "--for", "finished", "--json").out)
    assert list(solved) == list(DOCUMENTS["solve"])
    stated = DOCUMENTS["solve"]["preview"]
    assert all(key in stated for key in (*solved["preview"], *solved["preview"]["rows"][0]))


def test_explore_prints_its_link_before_it_serves(phsafe_command, tmp_path, monkeypatch):
    from phsafe.explorer.launch import Service

    monkeypatch.setattr(Service, "run", lambda service, browser: None)
    log = tmp_path / "run.log"
    outcome = phsafe_command("explore", "--no-browser", "--port", "0", "--json", "--quiet", "--log", log)
    document = json.loads(outcome.out)
    assert (outcome.code, outcome.err, list(document)) == (0, "", list(DOCUMENTS["explore"]))
    assert document["link"].startswith("http://127.0.0.1:")
    assert document["link"] not in log.read_text(), "the link holds a token"


def test_without_options_notices_go_to_standard_error(phsafe_command, words_of):
    outcome = phsafe_command(*words_of("synth"))
    assert outcome.out == ""
    assert "Made 50 households" in outcome.err and "synth: " in outcome.err


def test_json_leaves_notices_on_standard_error(phsafe_command, words_of):
    outcome = phsafe_command(*words_of("synth"), "--json")
    assert json.loads(outcome.out)["households"] == 50
    assert "Made 50 households" in outcome.err


def test_quiet_leaves_the_result(phsafe_command, words_of):
    outcome = phsafe_command(*words_of("budget"), "--quiet")
    assert "PH1_num" in outcome.out and outcome.err == ""


def test_errors_are_never_silent(phsafe_command, tmp_path):
    log = tmp_path / "run.log"
    outcome = phsafe_command("check", tmp_path / "nothing", "--quiet", "--json", "--log", log)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("phsafe: error: ")
    assert [line["text"] for line in read(log) if line["level"] == "error" and "text" in line] == [
        outcome.err.removeprefix("phsafe: error: ").strip()
    ]
    assert read(log)[-1]["exit_code"] == 1


def test_options_of_one_run_do_not_reach_the_next(phsafe_command, words_of, tmp_path):
    log = tmp_path / "run.log"
    phsafe_command(*words_of("budget"), "--json", "--quiet", "--log", log)
    before = log.read_text()
    outcome = phsafe_command(*words_of("synth"))
    assert "Made 50 households" in outcome.err
    assert log.read_text() == before
    assert (OUTPUT.json, OUTPUT.quiet, OUTPUT.log) == (False, False, None)


def test_runs_append_to_one_log(phsafe_command, words_of, tmp_path):
    log = tmp_path / "run.log"
    for _ in range(2):
        assert phsafe_command(*words_of("budget"), "--log", log).code == 0
    lines = read(log)
    assert [line["event"] for line in lines] == ["start", "end"] * 2
    assert len({line["run"] for line in lines}) == 2


def test_concurrent_runs_do_not_mix_their_lines(tmp_path):
    code = f"""
import sys
from pathlib import Path
from phsafe.cli.output import RunLog
log = RunLog(Path({str(tmp_path / "run.log")!r}), sys.argv[1])
for _ in range(500):
    log.write("notice", "info", text=sys.argv[1] * 500)
"""
    runs = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "ab"]
    assert [run.wait() for run in runs] == [0, 0]
    lines = read(tmp_path / "run.log")
    assert len(lines) == 1002
    assert all(line["text"] == line["command"] * 500 for line in lines if line["event"] == "notice")


def no_release(tmp_path):
    return not (tmp_path / "out").exists() and not (tmp_path / "out.ledger").exists()


def as_link(log):
    (log.parent / "target").write_text("")
    log.symlink_to(log.parent / "target")


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (lambda log: log.mkdir(), "Is a directory"),
        (as_link, "symbolic link"),
        (os.mkfifo, "expected a regular file"),
        (lambda log: log.write_text(MARKER), "expected format phsafe-log/1, got none"),
        (lambda log: log.write_text("[" * 90_000), "expected format phsafe-log/1, got none"),
        (lambda log: log.write_text("[]\n"), "expected format phsafe-log/1, got none"),
        (lambda log: log.write_text('{"format": "phsafe-log/2"}\n'), "a newer version of PHSafe wrote it"),
    ],
    ids=["folder", "link", "pipe", "text", "nested", "list", "newer"],
)
def test_an_unusable_log_is_refused_before_anything_is_charged(phsafe_command, words_of, tmp_path, spoil, word):
    log = tmp_path / "run.log"
    spoil(log)
    before = log.read_bytes() if log.is_file() else None
    outcome = phsafe_command(*words_of("release"), "--log", log)
    assert (outcome.code, outcome.out) == (1, "")
    assert word in outcome.err and len(outcome.err.splitlines()) == 1
    assert MARKER not in outcome.err
    assert no_release(tmp_path)
    assert before is None or log.read_bytes() == before


def test_a_log_that_may_not_be_written_is_refused(powerless, us, small, tmp_path):
    (tmp_path / "run.log").write_text("")
    (tmp_path / "run.log").chmod(0o400)
    said = powerless(
        "from phsafe.cli import main; main()", "release", us, small, tmp_path / "out", *NEW_LEDGER,
        tmp_path / "out.ledger", "--log", tmp_path / "run.log",
    )  # fmt: skip
    assert "can't append to the log: Permission denied" in said and "Traceback" not in said
    assert no_release(tmp_path)


def test_a_ledger_is_not_taken_for_a_log(phsafe_command, words_of, home):
    ledger = home / "x.ledger"
    before = ledger.read_bytes()
    assert phsafe_command(*words_of("budget"), "--log", ledger).code == 1
    assert ledger.read_bytes() == before


def test_a_line_that_was_cut_off_is_ended(phsafe_command, words_of, tmp_path):
    log = tmp_path / "run.log"
    assert phsafe_command(*words_of("budget"), "--log", log).code == 0
    log.write_text(log.read_text()[:-9])
    assert phsafe_command(*words_of("budget"), "--log", log).code == 0
    lines = log.read_text().splitlines()
    assert [json.loads(line)["event"] for line in (lines[0], *lines[2:])] == ["start", "start", "end"]


def test_a_full_disk_during_the_run_does_not_spoil_it(phsafe_command, words_of, tmp_path, monkeypatch):
    """The release is charged and complete, so its exit code says so; standard error tells about the log, once."""

    def full(log, event, level, **details):
        if event != "start":
            raise OSError(errno.ENOSPC, "No space left on device")
        append(log, event, level, **details)

    append = RunLog._append
    monkeypatch.setattr(RunLog, "_append", full)
    outcome = phsafe_command(*words_of("release"), "--quiet", "--log", tmp_path / "run.log")
    assert outcome.code == 0
    assert outcome.err == f"phsafe: error: {tmp_path / 'run.log'}: can't write the log: No space left on device\n"
    assert (tmp_path / "out" / "manifest.json").exists()


def test_the_log_of_a_release_depends_on_the_config_alone(phsafe_command, us, small, tmp_path):
    """Other data, same log: apart from times, the random id, and the paths that the user chose."""
    other = tmp_path / "other"
    other.mkdir()
    for name in ("persons", "units", "geo"):
        text = (small / f"{name}.csv").read_text().splitlines()
        (other / f"{name}.csv").write_text("\n".join(text[: len(text) // 2]) + "\n")
    told = []
    for data in (small, other):
        log, out = tmp_path / "run.log", tmp_path / "out"
        words = (
            "release",
            us,
            data,
            out,
            *NEW_LEDGER,
            tmp_path / f"l{len(told)}.ledger",
            "--skip-validation",
            "--log",
            log,
        )
        assert phsafe_command(*words).code == 0
        lines = [{k: v for k, v in line.items() if k not in ("time", "run")} for line in read(log)]
        told.append(json.loads(json.dumps(lines).replace(f"l{len(told)}.ledger", "ledger")))
        log.unlink()
        out.rename(tmp_path / f"done{len(told)}")
    assert told[0] == told[1]
    assert [line["text"] for line in told[0] if line["event"] == "stage"] == [
        "counting", "counted", "charging the ledger", "adding noise", "writing and checking", "released",
    ]  # fmt: skip


def test_an_internal_error_is_logged_by_its_type_only(phsafe_command, words_of, tmp_path, monkeypatch):
    from phsafe.configs.config import Config

    def fail(*_):
        raise KeyError(MARKER)

    monkeypatch.delenv("PHSAFE_DEBUG", raising=False)
    monkeypatch.setattr(Config, "load", fail)
    outcome = phsafe_command(*words_of("budget"), "--log", tmp_path / "run.log")
    assert outcome.code == 1
    assert MARKER not in (tmp_path / "run.log").read_text()
    assert "internal error (KeyError)" in (tmp_path / "run.log").read_text()


def test_the_log_holds_no_arguments(phsafe_command, words_of, tmp_path):
    """A Spark setting may be a password."""
    log = tmp_path / "run.log"
    phsafe_command(*words_of("validate"), "--spark-conf", f"spark.x.password={MARKER}", "--log", log)
    assert read(log)[-1]["event"] == "end"
    assert MARKER not in log.read_text()


def test_an_interrupt_is_logged(phsafe_command, words_of, tmp_path, monkeypatch):
    from phsafe.configs.config import Config

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Config, "load", stop)
    log = tmp_path / "run.log"
    assert phsafe_command(*words_of("budget"), "--log", log).code == 130
    assert [line["event"] for line in read(log)] == ["start", "stopped", "end"]
    assert read(log)[-1]["exit_code"] == 130


def test_a_debug_run_closes_its_log(monkeypatch, words_of, tmp_path):
    from phsafe.configs.config import Config

    def fail(*_):
        raise KeyError

    monkeypatch.setenv("PHSAFE_DEBUG", "1")
    monkeypatch.setattr(Config, "load", fail)
    monkeypatch.setattr(sys, "argv", ["phsafe", *words_of("budget"), "--log", str(tmp_path / "run.log")])
    with pytest.raises(KeyError):
        main()
    assert read(tmp_path / "run.log")[-1]["exit_code"] == 1


def test_shipped_configs(phsafe_command, us, pr):
    outcome = phsafe_command("config")
    assert outcome.out.split() == list(shipped_names())
    for name, file in (("us", us), ("pr", pr)):
        for options in ((), ("--json",)):
            outcome = phsafe_command("config", name, *options)
            assert (outcome.code, json.loads(outcome.out)) == (0, json.loads(file.read_text()))


@pytest.mark.parametrize(("name", "hint"), [("uss", "us"), ("US", "us"), ("pr.json", "pr"), ("zebra", None)])
def test_unknown_configs(phsafe_command, name, hint):
    outcome = phsafe_command("config", name)
    assert (outcome.code, outcome.out) == (1, "")
    assert "expected a shipped config, one of pr" in outcome.err
    assert (f"did you mean {hint}?" in outcome.err) if hint else ("did you mean" not in outcome.err)


@pytest.mark.parametrize("name", LEAVES)
def test_help_is_plain_and_needs_no_rich(name):
    """Loading Rich takes longer than the rest of a help page."""
    code = f"""
import sys
from phsafe import cli
sys.argv = ["phsafe", *{name.split()!r}, "--help"]
try:
    cli.main()
except SystemExit:
    pass
print(sorted({{"rich", "polars", "numpy"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *page, modules = done.stdout.splitlines()
    assert modules == "[]"
    text = "\n".join(page)
    assert page[0].startswith(f"Usage: phsafe {name} ")
    assert "--log FILE" in text and "[bold" not in text and "[/]" not in text
    assert max(map(len, page)) <= 80
