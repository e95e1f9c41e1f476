"""What a release must never do: count without truncation, draw noise uncharged, or show how the input was."""

import hashlib
import hmac
import json
import shutil
from fractions import Fraction

import polars as pl
import pytest

import phsafe
from phsafe.configs.config import Config
from phsafe.configs.grid import output_frame
from phsafe.errors import DataError, PHSafeError
from phsafe.model.exact_numbers import dumps
from phsafe.pipeline import publish
from phsafe.pipeline.release_ledger import LedgerChoice
from phsafe.pipeline.scan import Settings
from phsafe.privacy import mechanism
from phsafe.privacy.ledger import Ledger, LedgerError


@pytest.fixture
def counted(monkeypatch):
    """The exact counts that releases give to the mechanism."""
    seen = []

    def session(config, counts):
        seen.append((config, counts))
        return mechanism.open_session(config, counts)

    monkeypatch.setattr(publish, "open_session", session)
    return seen


def same_as_expected(counted, expected, path):
    ((config, counts),) = counted
    found = {
        (output.name, *row[:4]): row[4]
        for output, _ in config.outputs()
        for row in output_frame(config, output, counts)
        .select("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "DATA_CELL", "COUNT")
        .iter_rows()
    }
    wanted = expected(path)
    return {key: number for key, number in found.items() if number} == {
        key: number for key, number in wanted.items() if number
    }


def test_a_release_from_python_is_truncated(counted, us, small, tmp_path, expected):
    phsafe.release(us, small, tmp_path / "out", ledger=tmp_path / "ledger", new_ledger=True, skip_validation=True)
    assert same_as_expected(counted, expected, small / "expected_truncated_counts.csv")
    assert not same_as_expected(counted, expected, small / "expected_counts.csv")


def test_a_release_from_the_command_line_is_truncated(counted, phsafe_command, us, small, tmp_path, expected):
    outcome = phsafe_command("release", us, small, tmp_path / "out", "--ledger", tmp_path / "ledger", "--new-ledger")
    assert outcome.code == 0, outcome.err
    assert same_as_expected(counted, expected, small / "expected_truncated_counts.csv")


def test_the_whole_loss_is_charged_before_any_noise_is_drawn(us, small, tmp_path, monkeypatch):
    charged = []
    measure = mechanism.Session.measure

    def watch(session, measurement):
        charged.append([entry.loss.unbounded for entry in Ledger.open(tmp_path / "ledger").charges()])
        return measure(session, measurement)

    monkeypatch.setattr(mechanism.Session, "measure", watch)
    released = phsafe.release(
        us, small, tmp_path / "out", ledger=tmp_path / "ledger", new_ledger=True, skip_validation=True
    )
    assert len(charged) == len(released.config.measurements())
    assert {tuple(losses) for losses in charged} == {(released.budget.loss.unbounded,)}


@pytest.mark.parametrize("mode", ["published", "tight", "tight-bounded"])
def test_the_manifest_names_each_loss_by_its_own_neighbours(us, small, tmp_path, mode):
    released = phsafe.release(
        us, small, tmp_path / "out", ledger=tmp_path / "ledger", new_ledger=True, sensitivity=mode, skip_validation=True
    )
    stated, loss = released.manifest["privacy"], released.budget.loss
    assert (stated["rho"], stated["rho_bounded"]) == (loss.unbounded, loss.bounded)
    assert float(stated["epsilon"]) == loss.epsilon() < loss.epsilon_bounded() == float(stated["epsilon_bounded"])


def test_the_manifest_is_silent_about_settings_that_follow_the_data(us, small, tmp_path):
    manifests = []
    every = dict.fromkeys(("skip_validation", "allow_unclassified", "allow_empty_states"), True)
    for name, settings in {"a": {}, "b": every}.items():
        phsafe.release(us, small, tmp_path / name, ledger=tmp_path / f"{name}.ledger", new_ledger=True, **settings)
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        assert not any(word in dumps(manifest) for word in ("validation", "unclassified", "empty"))
        manifests.append({key: value for key, value in manifest.items() if key not in ("release_id", "files")})
    assert manifests[0] == manifests[1]


def damaged(small_frames, *columns):
    persons = small_frames["persons"].with_columns(pl.lit("99").alias(column) for column in columns)
    return small_frames | {"persons": persons}


def test_a_refusal_is_the_same_whatever_the_rules_and_however_many(us, small_frames, tmp_path):
    messages = set()
    for i, columns in enumerate([("RELSHIP",), ("CENRACE",), ("RELSHIP", "CENRACE", "CENHISP")]):
        with pytest.raises(DataError) as refused:
            phsafe.release(
                us, damaged(small_frames, *columns), tmp_path / "out", ledger=tmp_path / f"{i}.ledger", new_ledger=True
            )
        messages.add(str(refused.value))
    assert len(messages) == 1 and not any(letter.isdigit() for letter in messages.pop())


def test_standard_error_is_the_same_with_warnings_and_without(phsafe_command, us, small, tmp_path):
    """The small dataset has warnings; synthetic households have none."""
    assert len(phsafe.validate(us, small).of("warning")) > 0
    quiet = phsafe.synth(tmp_path / "made-up", 3000, "us")
    assert phsafe.validate(us, quiet).of("warning") == ()
    texts = set()
    ledger = Ledger.create(tmp_path / "ledger", 3)
    for name, data in {"loud": small, "quiet": quiet}.items():
        outcome = phsafe_command("release", us, data, tmp_path / f"{name}.out", "--ledger", ledger.path)
        assert outcome.code == 0
        texts.add(outcome.err)
    assert len(texts) == 1


def test_a_fingerprint_and_signatures_need_the_key(tmp_path):
    first, second = (Ledger.create(tmp_path / name, 1) for name in ("a.ledger", "b.ledger"))
    assert first.fingerprint([b"data"]) == first.fingerprint([b"da", b"ta"]) != second.fingerprint([b"data"])
    public = bytes.fromhex((tmp_path / "a.ledger.pub").read_text())
    for key in (b"", b"fingerprint", public, public.hex().encode()):
        assert first.fingerprint([b"data"]) != hmac.new(key, b"data", "sha256").hexdigest()
    assert first.fingerprint([b"data"]) != hashlib.sha256(b"data").hexdigest()
    (tmp_path / "a.ledger.key").unlink()
    for call in (lambda: first.fingerprint([b"data"]), lambda: first.note("me", "hello")):
        with pytest.raises(LedgerError, match="key is missing"):
            call()
    (tmp_path / "a.ledger.key").touch(mode=0o600)
    (tmp_path / "a.ledger.key").write_text((tmp_path / "b.ledger.key").read_text())
    with pytest.raises(LedgerError, match="not signed with the ledger's key"):
        first.note("me", "hello")


HUGE = 10**12


@pytest.mark.parametrize("way", ["python", "command"])
def test_published_counts_at_a_huge_budget_are_the_truncated_counts(
    way, phsafe_command, us_document, small, tmp_path, expected
):
    """With noise that rounds to 0, what is published is what was counted."""
    for levels in us_document["privacy_budget"].values():
        levels.update({key: HUGE for key, budget in levels.items() if budget})
    config, ledger = tmp_path / "config.json", tmp_path / "ledger"
    config.write_text(dumps(us_document))
    limit = 100 * HUGE
    if way == "python":
        phsafe.release(config, small, tmp_path / "out", ledger=ledger, new_ledger=True, max_rho=limit)
    else:
        words = ("--ledger", ledger, "--new-ledger", "--max-rho", limit)
        assert phsafe_command("release", config, small, tmp_path / "out", *words).code == 0
    released = phsafe.Release.open(tmp_path / "out").to_polars()
    columns = ("TABULATION", "REGION_TYPE", "REGION_ID", "ITERATION_CODE", "DATA_CELL", "COUNT")
    published = {tuple(row[:5]): row[5] for row in released.select(columns).iter_rows() if row[5]}
    wanted, untruncated = (
        {key: number for key, number in expected(small / name).items() if number}
        for name in ("expected_truncated_counts.csv", "expected_counts.csv")
    )
    assert published == wanted != untruncated


def test_a_finished_release_is_on_the_ledger_with_every_file(us, small, tmp_path):
    released = phsafe.release(us, small, tmp_path / "out", ledger=tmp_path / "ledger", new_ledger=True)
    (charge,) = Ledger.open(tmp_path / "ledger").charges()
    files = {path for path in released.path.rglob("*") if path.is_file()}
    assert charge.files == {
        str(path.relative_to(released.path)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }
    assert "manifest.json" in charge.files
    manifest = (released.path / "manifest.json").read_text()
    for secret in (charge.entry.user, charge.entry.host, charge.fingerprint):
        assert f'"{secret}"' not in manifest, "user, host and fingerprint are on the ledger only"


def test_an_untruncated_release_is_refused(us, small, tmp_path):
    """Its noise would be calibrated to thresholds that were not applied."""
    choice = LedgerChoice(tmp_path / "ledger", is_new=True)
    with pytest.raises(PHSafeError, match="a release is always truncated"):
        publish.publish(Config.load(us), small, tmp_path / "out", choice, Settings(truncate=False))
    assert list(tmp_path.iterdir()) == []


def test_dropped_persons_state_their_assumptions_in_every_mode(us_document, small, tmp_path):
    us_document["privacy_budget"]["PH1_dropped"] = {"usa_*": 1, "state_*": 0}
    made = phsafe.release(us_document, small, tmp_path / "out", ledger=tmp_path / "ledger", new_ledger=True)
    assert made.config.sensitivity == "published"
    assert "geography of an address is public" in " ".join(made.manifest["privacy"]["assumptions"])


def test_stated_losses_are_never_below_the_charge(us_document, small, tmp_path):
    """A third has no finite decimals; the manifest's float must not be below it."""
    document = us_document | {"tau": dict.fromkeys(us_document["tau"], 7), "sensitivity": "tight-bounded"}
    made = phsafe.release(document, small, tmp_path / "out", ledger=tmp_path / "ledger", new_ledger=True)
    stated = json.loads((made.path / "manifest.json").read_text())["privacy"]
    (charge,) = Ledger.open(tmp_path / "ledger").charges()
    assert Fraction(stated["rho"]) >= charge.loss.unbounded and Fraction(stated["rho_bounded"]) >= charge.loss.bounded


@pytest.mark.parametrize("mode", ["published", "structured"])
def test_counts_without_the_unit_table_are_refused_where_geography_needs_it(
    us_document, small_frames, write_cef, tmp_path, mode
):
    """Geography comes through the unit here, so one person could move more than one count by one (claims C14, C17)."""
    document, data = us_document | {"sensitivity": mode, "reader": "cef"}, write_cef(tmp_path / "data", small_frames)
    if mode == "published":
        document["privacy_budget"]["PH1_dropped"] = {"usa_*": 0.1, "state_*": 0}
    with pytest.raises(PHSafeError, match="finds the region of a household through its unit"):
        phsafe.release(document, data, tmp_path / "out", ledger=tmp_path / "ledger", new_ledger=True)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_only_validate_names_a_malformed_line(phsafe_command, us, small, tmp_path):
    """Where a line is malformed depends on the data; a release says the same wherever it is."""
    lines = (small / "persons.csv").read_text().splitlines(keepends=True)
    data, said = shutil.copytree(small, tmp_path / "data"), set()
    for place in (3, 1500):
        (data / "persons.csv").write_text("".join([*lines[: place - 1], "3\n", *lines[place - 1 :]]))
        for skip in ([], ["--skip-validation"]):
            ledger = ["--ledger", tmp_path / "ledger", "--new-ledger"]
            outcome = phsafe_command("release", us, data, tmp_path / "out", *ledger, *skip)
            assert outcome.code == 1
            said.add(outcome.err.partition("persons.csv: ")[2])
        outcome = phsafe_command("validate", us, data)
        assert outcome.code == 1
        assert f"persons.csv, line {place}: expected CSV" in outcome.err
    (text,) = said
    assert "phsafe validate names the line" in text
