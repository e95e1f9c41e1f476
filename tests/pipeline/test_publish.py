"""Releases: whole or not at all, charged before noise, and silent about the data."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import stat
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

import phsafe
from phsafe.configs.config import Config
from phsafe.configs.parameters import parameters_2020
from phsafe.errors import FinishedError, OutputError, PHSafeError
from phsafe.model.conditions import where
from phsafe.model.spec import Line, Table, Tabulation
from phsafe.model.tables import CENSUS_2020
from phsafe.pipeline import publish, release_ledger
from phsafe.pipeline.fingerprint import fingerprint_chunks
from phsafe.privacy.ledger import Ledger
from phsafe.releases.release_folder import Release
from phsafe.releases.verify import ledger_problems, problems
from phsafe.system.interrupts import FinishedInterrupt, stoppable

ROWS = {
    "PH1_num": 1040, "PH1_denom": 520, "PH2": 416, "PH3": 3640, "PH4": 1040, "PH5_num": 1040,
    "PH5_denom": 520, "PH6": 832, "PH7": 1560, "PH8_num": 1040, "PH8_denom": 1040,
}  # fmt: skip


@pytest.fixture(scope="module")
def released(us, small, tmp_path_factory) -> Release:
    folder = tmp_path_factory.mktemp("released")
    return release(us, small, folder)


def release(us, data, folder: Path, name: str = "out", **options) -> Release:
    """Release, with a new ledger unless there is one."""
    ledger = folder / "ledger"
    return phsafe.release(
        us, data, folder / name, ledger=ledger, new_ledger=not ledger.exists(), skip_validation=True, **options
    )


def test_a_release_has_every_file_with_its_rows_and_integers(released):
    assert {path.name for path in released.path.iterdir()} == {*ROWS, "manifest.json"}
    for name, rows in ROWS.items():
        frame = released.measurements(name)
        assert frame.height == rows
        assert frame["COUNT"].dtype == pl.Int64
        header = (released.path / name / f"{name.lower()}.csv").read_text().splitlines()[0].split("|")
        iteration = [] if name in ("PH2", "PH6") else ["ITERATION_CODE"]
        assert header == ["REGION_ID", "REGION_TYPE", *iteration, f"{name.upper()}_DATA_CELL", "COUNT",
                          "NOISE_DISTRIBUTION", "VARIANCE"]  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "person", "unit"),
    [("published", 242, 2), ("tight", 50, 0.5), ("tight-bounded", 100, 1), ("structured", 0.5, 0.5)],
)
def test_variances_are_those_of_the_mode(us, small, tmp_path, mode, person, unit):
    made = release(us, small, tmp_path, sensitivity=mode)
    rho, per = Fraction(16371, 10**6), Fraction(135, 10**6)
    for name, expected in (("PH1_num", person / rho), ("PH1_denom", unit / per)):
        frame = made.measurements(name).filter(REGION_TYPE="STATE", ITERATION_CODE="*")
        assert frame["VARIANCE"].unique().to_list() == pytest.approx([float(expected)], rel=1e-9)
    assert made.manifest["privacy"]["sensitivity"] == mode


#: Rows of what truncation drops, and k in σ² = k/ρ of each.
BEYOND = {
    "PH1_dropped": (104, 0.5), "PH1_oversized": (520, 2), "PH2_oversized": (416, 2), "PH3_dropped": (2080, 0.5),
    "PH3_oversized": (2080, 2), "PH4_dropped": (104, 0.5), "PH4_oversized": (520, 2), "PH6_dropped": (208, 0.5),
    "PH6_oversized": (208, 2), "PH7_oversized": (1560, 2),
}  # fmt: skip


def test_a_release_can_measure_what_truncation_drops(small, tmp_path):
    """The files of 2020 keep their form; the others have the same form, and the manifest states all of them."""
    config = Config.load(parameters_2020("us-measured"))
    made = release(config, small, tmp_path)
    assert {path.name for path in made.path.iterdir()} == {*ROWS, *BEYOND, "manifest.json"}
    assert {name: made.measurements(name).height for name in ROWS} == ROWS
    for name, (rows, k) in BEYOND.items():
        tabulation, frame = config.catalog.tabulation(name), made.measurements(name)
        assert frame.height == rows
        header = (made.path / name / f"{name.lower()}.csv").read_text().splitlines()[0].split("|")
        iteration = ["ITERATION_CODE"] if tabulation.iterate_by else []
        assert header[:-3] == ["REGION_ID", "REGION_TYPE", *iteration, f"{name.upper()}_DATA_CELL"]
        variance = frame.filter(REGION_TYPE="STATE", ITERATION_CODE="*")["VARIANCE"].unique().to_list()
        assert variance == pytest.approx([k / float(config.budgets[name]["state_*"])], rel=1e-9)
        assert {row["tau"] for row in made.manifest["levels"] if row["tabulation"] == name} == {
            config.tau_of(tabulation)
        }
    assert made.table("PH6")["TABULATION"].unique().sort().to_list() == ["PH6", "PH6_dropped", "PH6_oversized"]
    assert str(made.manifest["privacy"]["rho"]) == "1.282281"
    assert problems(made) == []
    assert Config.load(made.manifest["config"]) == config


def test_a_structured_release_has_the_same_layout_and_lists_its_blocks(us, small, tmp_path, released):
    """Blind cells are untruncated, have their own variance, and verification notices a swapped one."""
    made = release(us, small, tmp_path, sensitivity="structured")
    assert problems(made) == []
    for name in ROWS:
        keys = ["REGION_ID", "REGION_TYPE", "ITERATION_CODE", "DATA_CELL"]
        assert made.measurements(name).select(keys).equals(released.measurements(name).select(keys))
    entry = next(e for e in made.manifest["levels"] if (e["tabulation"], e["level"]) == ("PH3", "state_A-G"))
    blind, rest = entry["blocks"]
    assert (blind["cells"], blind["without_units"], rest["cells"], rest["without_units"]) == (
        [2, 9, 10], True, [4, 5, 6, 7], False,
    )  # fmt: skip
    assert blind["budget"] + rest["budget"] == entry["budget"] and entry["variance"] == rest["variance"]
    frame = made.measurements("PH3").filter(REGION_TYPE="STATE", ITERATION_CODE="A")
    variances = {cell: part["VARIANCE"].unique().to_list() for (cell,), part in frame.group_by("DATA_CELL")}
    assert all(variances[cell] == pytest.approx([float(blind["variance"])]) for cell in blind["cells"])
    assert all(variances[cell] == pytest.approx([float(rest["variance"])]) for cell in rest["cells"])
    privacy = made.manifest["privacy"]
    assert privacy["rho"] == Decimal("1.2383568") < sum(e["loss"] for e in made.manifest["levels"])
    assert "public" in privacy["assumptions"][0] and "household" in privacy["assumptions"][1]
    assert "assumptions" not in released.manifest["privacy"]
    (charge,) = Ledger(tmp_path / "ledger").charges()
    assert (charge.loss.unbounded, charge.loss.bounded) == (Fraction(privacy["rho"]), Fraction(privacy["rho_bounded"]))
    assert ledger_problems(made, tmp_path / "ledger") == []
    file = made.path / "PH3" / "ph3.csv"
    file.write_text(file.read_text().replace(repr(variances[2][0]), repr(variances[4][0])))
    assert any("VARIANCE doesn't match" in problem for problem in problems(made))


def test_a_structured_release_through_another_catalog_opens_from_its_folder_alone(us_document, small, tmp_path):
    """Which cells of a table are counted without units follows from the catalog in the manifest."""
    cells = {1: where(RELSHIP="30"), 2: where(RELSHIP="31", TEN="1")}
    table = Table(
        "PH9", "Relatives", "Population in households", (Line(1, "Grandchildren"), Line(2, "Parents")),
        (Tabulation("PH9", cells, persons=where(RTYPE=3)),),
    )  # fmt: skip
    budgets = us_document["privacy_budget"] | {
        "PH9": {level.key: int(level.key == "state_*") for level in CENSUS_2020.levels}
    }
    catalog, document = CENSUS_2020.extended((table,)), us_document | {"privacy_budget": budgets}
    document["tau"] = document["tau"] | {"PH9": 3}
    document["blind_share"] = {"PH9": 0.25}
    release(document, small, tmp_path, sensitivity="structured", catalog=catalog, max_rho=20)
    opened = Release.open(tmp_path / "out")
    assert problems(opened) == [] and ledger_problems(opened, tmp_path / "ledger") == []
    entry = next(entry for entry in opened.manifest["levels"] if entry["tabulation"] == "PH9")
    blocks = [(block["cells"], block["without_units"], block["budget"]) for block in entry["blocks"]]
    assert blocks == [([1], True, Decimal("0.25")), ([2], False, Decimal("0.75"))]
    assert opened.config.blind_share == {"PH9": Decimal("0.25")}


def test_derived_tabulations_follow_their_source(released):
    ph4, ph5 = released.measurements("PH4"), released.measurements("PH5_num")
    assert ph4.equals(ph5)
    keys = ["REGION_TYPE", "REGION_ID", "ITERATION_CODE"]
    ph7, ph8 = (released.measurements(name).sort(*keys, "DATA_CELL") for name in ("PH7", "PH8_num"))
    owners = ph7.filter(pl.col("DATA_CELL") < 4).group_by(keys, maintain_order=True).agg(pl.sum("COUNT", "VARIANCE"))
    derived = ph8.filter(DATA_CELL=2)
    assert derived["COUNT"].to_list() == owners["COUNT"].to_list()
    assert derived["VARIANCE"].to_list() == pytest.approx(owners["VARIANCE"].to_list(), rel=1e-12)
    assert ph8.filter(DATA_CELL=3)["COUNT"].to_list() == ph7.filter(DATA_CELL=4)["COUNT"].to_list()


def test_the_manifest_states_the_loss(released):
    privacy = released.manifest["privacy"]
    assert (str(privacy["rho"]), str(privacy["rho_bounded"])) == ("1.257281", "2.514562")
    assert problems(released) == []


def test_two_releases_of_the_same_data_differ_in_noise(us, small, tmp_path, released):
    again = release(us, small, tmp_path)
    assert not again.measurements("PH3")["COUNT"].equals(released.measurements("PH3")["COUNT"])


def test_nothing_but_noise_depends_on_the_data(us, small, parity, tmp_path, released, capsys):
    """Two very different inputs: the same bytes outside COUNT, the hashes of those files and the random id."""
    capsys.readouterr()
    other = release(us, parity, tmp_path)
    assert capsys.readouterr() == ("", "")
    for name in ROWS:
        assert other.measurements(name).drop("COUNT").equals(released.measurements(name).drop("COUNT"))
    manifests = [json.loads((made.path / "manifest.json").read_text()) for made in (released, other)]
    for manifest in manifests:
        assert set(manifest.pop("files")) == {f"{name}/{name.lower()}.csv" for name in ROWS}
        assert len(manifest.pop("release_id")) == 36
    assert manifests[0] == manifests[1]


def test_puerto_rico_and_pure_privacy_run(pr_document, small, tmp_path):
    made = release(pr_document, small, tmp_path)
    assert set(made.measurements("PH3")["REGION_TYPE"]) == {"STATE"}
    pure = release(pr_document | {"privacy_defn": "puredp"}, small, tmp_path / "..", "pure-out")
    assert set(pure.measurements("PH1_num")["NOISE_DISTRIBUTION"]) == {"Two-Sided Geometric"}
    assert "epsilon" in pure.manifest["privacy"] and "rho" not in pure.manifest["privacy"]


def test_levels_and_tables_without_a_budget_are_left_out(us_document, small, tmp_path):
    for name, levels in us_document["privacy_budget"].items():
        for key in levels:
            if name != "PH2" or key != "state_*":
                levels[key] = 0
    made = release(us_document, small, tmp_path)
    assert {path.name for path in made.path.iterdir()} == {"PH2", "manifest.json"}
    assert made.measurements("PH2").height == 51 * 8
    nothing = us_document | {
        "privacy_budget": {n: dict.fromkeys(k, 0) for n, k in us_document["privacy_budget"].items()}
    }
    with pytest.raises(PHSafeError, match="nothing to release"):
        release(nothing, small, tmp_path, "none")


def test_an_insufficient_cap_refuses_early_and_shows_what_is_left(us, small, tmp_path):
    Ledger.create(tmp_path / "ledger", Fraction(1))
    stages = []
    with pytest.raises(PHSafeError, match="1 of 1 ρ is left"):
        release(us, small, tmp_path, progress=lambda stage, _: stages.append(stage))
    assert stages == [], "before the work"
    assert not (tmp_path / "out").exists()
    assert Ledger.open(tmp_path / "ledger").charges() == ()


def test_one_ledger_serves_all_files_of_a_population(us, small, parity, tmp_path):
    release(us, small, tmp_path)
    with pytest.raises(PHSafeError, match="0 of 1"):
        release(us, parity, tmp_path, "second")
    with pytest.raises(PHSafeError, match=r"needs 0\.79\d* ρ, but 0 of 1"):
        release(Config.load(us).to_production() | {"privacy_defn": "puredp"}, small, tmp_path, "third")


def test_the_ledger_beside_the_data_is_the_default(us, small, tmp_path):
    data = shutil.copytree(small, tmp_path / "people")
    phsafe.release(us, data, tmp_path / "out", skip_validation=True, new_ledger=True)
    (entry,) = Ledger.open(tmp_path / "people.ledger").charges()
    assert entry.details["settings"]["skip_validation"] is True
    frames = {name: pl.read_csv(small / f"{name}.csv", infer_schema=False) for name in ("persons", "units", "geo")}
    with pytest.raises(PHSafeError, match="ledger="):
        phsafe.release(us, frames, tmp_path / "frames")


def test_a_data_folder_has_one_default_ledger_however_it_is_reached(small, tmp_path, monkeypatch):
    data = shutil.copytree(small, tmp_path / "people")
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link"
    link.symlink_to(data)
    monkeypatch.chdir(data)
    ways = (data, link, link / ".." / "people", tmp_path / "elsewhere" / ".." / "people", ".", f"{data}/")
    assert {release_ledger.default_ledger(way) for way in ways} == {tmp_path / "people.ledger"}


def test_the_ledger_notes_the_config_with_all_digits_and_the_input(pr_document, small, small_frames, tmp_path):
    """As exact texts: a float of JSON would lose digits. Frames in memory are known by nothing."""
    Ledger.create(tmp_path / "ledger", Fraction(3))
    release(pr_document, small, tmp_path)
    release(pr_document, small_frames, tmp_path, "frames")
    ledger = Ledger.open(tmp_path / "ledger")
    first, second = ledger.charges()
    assert first.fingerprint == ledger.fingerprint(fingerprint_chunks(small))
    assert second.fingerprint is None
    for entry in (first, second):
        noted = entry.details["config"]
        assert noted["tau"] == pr_document["tau"]
        assert noted["privacy_budget"]["PH2"] == {"usa_*": "0", "state_*": "0.016371"}


def test_no_budget_or_no_default_ledger_is_refused(us_document, small, tmp_path):
    budgets = us_document["privacy_budget"]
    us_document["privacy_budget"] = {name: dict.fromkeys(levels, 0) for name, levels in budgets.items()}
    with pytest.raises(PHSafeError, match="every budget of the config is 0"):
        release(us_document, small, tmp_path)
    with pytest.raises(PHSafeError, match="name a local file with --ledger"):
        release_ledger.default_ledger("hdfs://cluster/people")
    assert list(tmp_path.iterdir()) == []


def test_bad_input_is_not_charged(us, small, tmp_path, small_frames):
    broken = small_frames | {"units": pl.concat([small_frames["units"], small_frames["units"].head(1)])}
    with pytest.raises(PHSafeError, match="failed validation"):
        phsafe.release(us, broken, tmp_path / "out", ledger=tmp_path / "ledger", new_ledger=True)
    assert Ledger.open(tmp_path / "ledger").charges() == ()
    (tmp_path / "out").mkdir()
    with pytest.raises(PHSafeError) as refused:
        phsafe.release(us, tmp_path / "nowhere", tmp_path / "out", ledger=tmp_path / "ledger")
    assert len(refused.value.reasons) == 2
    assert list((tmp_path / "out").iterdir()) == []


def test_an_error_after_the_charge_reports_that_it_stays_charged(us, small, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OutputError("no room")

    monkeypatch.setattr(publish, "write_manifest", full)
    with pytest.raises(PHSafeError) as failed:
        release(us, small, tmp_path)
    assert failed.value.reasons[0] == "no room"
    assert "1.257281" in failed.value.reasons[1] and "stays charged" in failed.value.reasons[1]
    assert len(Ledger.open(tmp_path / "ledger").charges()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "ledger.key", "ledger.pub"]


def test_an_internal_error_after_the_charge_hides_its_message(us, small, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("12345")

    monkeypatch.setattr(publish, "write_manifest", fail)
    with pytest.raises(PHSafeError) as failed:
        release(us, small, tmp_path)
    assert failed.value.reasons[0] == "internal error (RuntimeError); please report it"
    assert "stays charged" in failed.value.reasons[1]


def test_hashes_that_cannot_be_recorded_leave_a_complete_release(pr_document, small, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise PHSafeError("the disk is full; nothing was charged")

    monkeypatch.setattr(Ledger, "finish", full)
    with pytest.raises(FinishedError, match=r"charged and complete, but the hashes .* could not be added") as failed:
        release(pr_document, small, tmp_path)
    assert "nothing was charged" not in str(failed.value)
    (charge,) = Ledger.open(tmp_path / "ledger").charges()
    assert charge.files is None and Release.open(tmp_path / "out").release_id == charge.release_id


def test_a_failure_after_the_rename_leaves_a_complete_release(pr_document, small, tmp_path, monkeypatch):
    """A panic of a library in Rust is no `Exception`; progress that fails after the charge costs nothing."""

    class Panic(BaseException):
        pass

    def fail(*_: object) -> None:
        raise Panic("12345")

    def stop_at(stage: str, done: float) -> None:
        if stage == "released":
            monkeypatch.setattr(Release, "read", fail)
        if done > 0.85:
            raise BrokenPipeError

    with pytest.raises(FinishedError, match=r"but a step after it failed \(Panic\); do not repeat the release"):
        release(pr_document, small, tmp_path, progress=stop_at)
    monkeypatch.undo()
    (charge,) = Ledger.open(tmp_path / "ledger").charges()
    assert charge.files is not None and Release.open(tmp_path / "out").release_id == charge.release_id


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_an_interrupt_after_the_charge_lets_the_release_finish(heard, pr_document, small, tmp_path, number):
    """What was paid for is not thrown away: noise is drawn, the folder written, and then the signal heard."""

    def stop_at(stage: str, _: float) -> None:
        if stage == "adding noise":
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt, match="already charged, so it was finished"), stoppable():
        release(pr_document, small, tmp_path, progress=stop_at)
    (entry,) = Ledger.open(tmp_path / "ledger").charges()
    assert Release.open(tmp_path / "out").release_id == entry.release_id


@pytest.mark.parametrize("existed", [True, False])
def test_an_interrupt_is_explained_by_what_appeared_since(tmp_path, existed):
    out = tmp_path / "out"
    if existed:
        out.mkdir()
    with (
        pytest.raises(KeyboardInterrupt) as stopped,
        publish.explained_interrupt(out),
        publish.explained_interrupt(out),
    ):
        out.mkdir(exist_ok=True)
        raise KeyboardInterrupt
    assert isinstance(stopped.value, FinishedInterrupt) == (not existed)
    assert ("nothing was charged" in str(stopped.value)) == existed


@pytest.mark.parametrize("stage", ["counting", "charging the ledger"])
def test_an_interrupt_before_the_charge_costs_nothing(heard, pr_document, small, tmp_path, stage):
    def stop_at(now: str, _: float) -> None:
        if now == stage:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), stoppable():
        release(pr_document, small, tmp_path, progress=stop_at)
    assert Ledger.open(tmp_path / "ledger").charges() == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "ledger.key", "ledger.pub"]
    release(pr_document, small, tmp_path)


def test_a_full_disk_is_found_before_the_charge(pr_document, small, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, limits[1]))  # more than a ledger, less than a release
    try:
        with pytest.raises(PHSafeError, match="File too large; free some"):
            release(pr_document, small, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert Ledger.open(tmp_path / "ledger").charges() == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger", "ledger.key", "ledger.pub"]


def test_a_disk_that_fails_only_on_flush_is_found_before_the_charge(pr_document, small, tmp_path, monkeypatch):
    """As network disks do. The whole reserve has been written by then."""
    really, sizes = os.fsync, []

    def full(descriptor):
        if Path(f"/dev/fd/{descriptor}").resolve().name == "reserve":
            sizes.append(os.fstat(descriptor).st_size)
            raise OSError(errno.ENOSPC, "No space left on device")
        really(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PHSafeError, match="No space left on device; free some") as refused:
        release(pr_document, small, tmp_path)
    assert f"expected {sizes[0]} bytes of free disk space" in str(refused.value)
    assert Ledger.open(tmp_path / "ledger").charges() == ()


def test_progress_and_reserved_disk_space(us, small, tmp_path):
    """Twice the room that it needs, until it is written: after the charge the disk can't be too full."""
    seen, kept = [], []

    def look(stage: str, done: float) -> None:
        seen.append((stage, done))
        kept.extend(file.stat().st_size for file in tmp_path.glob(".out.*/reserve"))

    made = release(us, small, tmp_path, progress=look)
    assert seen[0] == ("counting", 0.0)
    assert seen == sorted(seen, key=lambda step: step[1])
    assert [step for step in seen if step[1] > 0.85] == [
        ("adding noise", 0.9),
        ("writing and checking", 0.95),
        ("released", 1.0),
    ]
    assert len(kept) == len(seen) - 1
    assert min(kept) >= 2 * sum(file.stat().st_size for file in made.path.rglob("*") if file.is_file())


def test_file_modes_of_a_release_follow_the_umask(pr_document, small, tmp_path):
    before = os.umask(0o022)
    try:
        made = release(pr_document, small, tmp_path)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (made.path, *made.path.rglob("*"))}
    assert modes == {0o755, 0o644}


def test_file_times_are_the_start_of_the_day(tmp_path, monkeypatch):
    (tmp_path / "PH1").mkdir()
    (tmp_path / "PH1" / "ph1.csv").touch()
    monkeypatch.setattr(time, "time", lambda: 20_000 * 86_400 + 0.5)
    publish._date(tmp_path)
    assert {path.stat().st_mtime for path in (tmp_path, *tmp_path.rglob("*"))} == {20_000 * 86_400}


def test_two_releases_to_one_folder_are_not_both_charged(pr_document, small, tmp_path):
    """The second is refused as soon as it starts, while the first is still counting."""
    refused = []

    def meanwhile(stage: str, _: float) -> None:
        if stage == "counting" and not refused:
            refused.append(stage)
            with pytest.raises(PHSafeError, match="another run is writing"):
                release(pr_document, small, tmp_path)

    release(pr_document, small, tmp_path, progress=meanwhile)
    assert refused and len(Ledger.open(tmp_path / "ledger").charges()) == 1


def test_a_release_that_fails_verification_gets_no_final_name(us, small, tmp_path, monkeypatch):
    monkeypatch.setattr(publish, "problems", lambda _: ["something is odd"])
    with pytest.raises(PHSafeError, match="own verification: something is odd"):
        release(us, small, tmp_path)
    assert not (tmp_path / "out").exists()


def _attempt(us: Path, data: Path, folder: Path, name: str) -> None:
    """One release in a process of its own; its exit code says how it went."""
    try:
        release(us, data, folder, name)
    except PHSafeError:
        os._exit(1)
    os._exit(0)


@pytest.fixture(scope="module")
def processes():
    """Processes that have loaded the program but started nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["phsafe.pipeline.calls"])
    return context


def test_parallel_releases_cannot_exceed_the_cap(us, small, tmp_path, processes):
    Ledger.create(tmp_path / "ledger", 2 * Config.load(us).total)
    running = [processes.Process(target=_attempt, args=(us, small, tmp_path, f"out{i}")) for i in range(5)]
    for process in running:
        process.start()
    for process in running:
        process.join()
    assert sorted(process.exitcode for process in running) == [0, 0, 1, 1, 1]
    made = [path for path in tmp_path.iterdir() if path.name.startswith("out")]
    assert len(made) == 2
    ledger = Ledger.open(tmp_path / "ledger")
    assert {Release.open(path).release_id for path in made} == {entry.release_id for entry in ledger.charges()}
    assert ledger.read().left == 0 and ledger.verify() == []


def test_kill_at_any_moment_leaves_no_partial_and_no_uncharged_release(us, small, tmp_path, processes):
    """Twenty releases, each killed at a random moment of the time that a whole one takes."""
    Ledger.create(tmp_path / "ledger", 30 * Config.load(us).total)
    start = time.monotonic()
    whole = processes.Process(target=_attempt, args=(us, small, tmp_path, "whole"))
    whole.start()
    whole.join()
    usual = time.monotonic() - start
    for i in range(20):
        process = processes.Process(target=_attempt, args=(us, small, tmp_path, f"out{i}"))
        process.start()
        process.join(random.uniform(0.2, 1.1) * usual)
        process.kill()
        process.join()
    ledger = Ledger.open(tmp_path / "ledger")
    assert ledger.verify() == []
    charged = {entry.release_id for entry in ledger.charges()}
    named = [path for path in tmp_path.iterdir() if path.is_dir() and not path.name.startswith(".")]
    for path in named:
        assert Release.open(path).release_id in charged
    assert len(charged) >= len(named) >= 1
    release(us, small, tmp_path, "after")
