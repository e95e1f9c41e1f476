"""Who may run it, on what, and what comes back."""

import shutil

import pytest

import phsafe
from phsafe.appraisal.curves import curves
from phsafe.appraisal.run import check_public
from phsafe.errors import PHSafeError

from .conftest import NEVER, SMALL


def test_data_that_nobody_calls_public_are_refused(make_config):
    with pytest.raises(PHSafeError) as refused:
        phsafe.accuracy(make_config(), SMALL)
    (reason,) = refused.value.reasons
    assert "PUBLIC" in reason
    assert "--i-know-this-is-public" in reason


def test_the_marker_or_a_word_lets_data_in(tmp_path, small_frames):
    with pytest.raises(PHSafeError, match="frames in memory"):
        check_public(small_frames, public=False)
    check_public(small_frames, public=True)
    data = tmp_path / "data"
    shutil.copytree(SMALL, data)
    with pytest.raises(PHSafeError):
        check_public(data, public=False)
    (data / "PUBLIC").write_text("made up")
    check_public(data, public=False)


def test_every_problem_is_said_at_once(tmp_path, make_config):
    with pytest.raises(PHSafeError) as refused:
        phsafe.accuracy(
            make_config(), tmp_path / "nothing", tmp_path, trials=1, estimate_trials=3, tau=[0], scale=["no"],
        )  # fmt: skip
    reasons = "\n".join(refused.value.reasons)
    for word in ("PUBLIC", "persons", "doesn't exist yet", "trials: expected 2", "tau:", "scale:"):
        assert word in reasons


def test_the_same_from_two_processes(make_config):
    found = phsafe.accuracy(
        make_config(kept=("PH7",)), SMALL, trials=12, estimate_trials=1, public=True, skip_validation=True,
        false_alarm=NEVER, jobs=2,
    )  # fmt: skip
    assert set(found.tabulations["RELEASES"]) == {12}
    assert set(found.tables["RELEASES"]) == {1}
    assert found.as_stated


def test_shares_are_the_people_lost(report):
    cells = report.cells.filter(TABULATION="PH7", LEVEL="usa_*", SCALE=1.0)
    for tau in (1, 3, 5):
        own = cells.filter(TAU=tau)
        assert report.shares["PH7"][tau] == pytest.approx(-100 * own["TRUNCATION"].sum() / own["TRUTH"].sum(), abs=1e-5)
    assert set(report.shares) == {"PH7"}


def test_the_least_total_error_is_that_of_the_stated_noise_and_the_exact_truncation(report):
    found = curves(report)
    assert {name for name, _ in found} == {"PH7"}
    for (name, level), of in found.items():
        assert [curve.scale for curve in of] == [1.0, 100.0]
        for curve in of:
            rows = report.tabulations.filter(TABULATION=name, LEVEL=level, SCALE=curve.scale)
            assert curve.best.tau == rows.sort("RMSE_EXPECTED", "TAU")["TAU"][0]
    # People lost weigh more where noise is small.
    state = found["PH7", "state_*"]
    assert state[0].best.tau <= state[1].best.tau


def test_regions_without_people_are_named(make_config, small_frames):
    frames = {
        "geo": small_frames["geo"].filter(TABBLKST="50"),
        **{name: small_frames[name] for name in ("persons", "units")},
    }
    homes = frames["geo"]["MAFID"]
    frames |= {name: frames[name].filter(frames[name]["MAFID"].is_in(homes.implode())) for name in ("persons", "units")}
    found = phsafe.accuracy(
        make_config(kept=("PH7",)), frames, trials=2, estimate_trials=0, public=True, skip_validation=True, jobs=1,
        false_alarm=NEVER,
    )  # fmt: skip
    assert found.nowhere == ["56"]
    assert found.tables.is_empty()
    assert found.lines.is_empty()


def test_a_census_edited_file_is_read_as_the_config_says(tmp_path, make_config, small_frames, write_cef):
    data = write_cef(tmp_path / "cef", small_frames)
    with pytest.raises(PHSafeError, match="PUBLIC"):
        phsafe.accuracy(make_config(kept=("PH7",), reader="cef"), data)
    once = {
        "trials": 2,
        "estimate_trials": 0,
        "public": True,
        "skip_validation": True,
        "jobs": 1,
        "false_alarm": NEVER,
    }
    found = phsafe.accuracy(make_config(kept=("PH7",), reader="cef"), data, **once)
    same = phsafe.accuracy(make_config(kept=("PH7",)), SMALL, **once)
    assert found.cells["TRUTH"].equals(same.cells["TRUTH"])
    assert found.cells["TRUNCATION"].equals(same.cells["TRUNCATION"])
