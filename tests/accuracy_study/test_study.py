"""The accuracy study: which data it accepts, and what it returns."""

import shutil

import pytest

import phsafe
from phsafe.accuracy_study.study import check_public
from phsafe.accuracy_study.threshold_curves import curves
from phsafe.errors import PHSafeError

from .conftest import NEVER, SMALL


def test_data_not_known_to_be_public_are_refused(make_config):
    with pytest.raises(PHSafeError) as refused:
        phsafe.accuracy(make_config(), SMALL)
    (reason,) = refused.value.reasons
    assert "PUBLIC" in reason
    assert "--i-know-this-is-public" in reason


def test_marked_or_confirmed_data_are_accepted(tmp_path, small_frames):
    with pytest.raises(PHSafeError, match="frames in memory"):
        check_public(small_frames, public=False)
    check_public(small_frames, public=True)
    data = tmp_path / "data"
    shutil.copytree(SMALL, data)
    with pytest.raises(PHSafeError):
        check_public(data, public=False)
    (data / "PUBLIC").write_text("made up")
    check_public(data, public=False)


def test_all_problems_are_reported_together(tmp_path, make_config):
    with pytest.raises(PHSafeError) as refused:
        phsafe.accuracy(
            make_config(), tmp_path / "nothing", tmp_path, trials=1, estimate_trials=3, tau=[0], scale=["no"],
        )  # fmt: skip
    reasons = "\n".join(refused.value.reasons)
    for word in ("PUBLIC", "persons", "doesn't exist yet", "trials: expected 2", "tau:", "scale:"):
        assert word in reasons


def test_two_workers_make_all_releases(make_config):
    found = phsafe.accuracy(
        make_config(kept=("PH7",)), SMALL, trials=12, estimate_trials=1, public=True, skip_validation=True,
        false_alarm=NEVER, jobs=2,
    )  # fmt: skip
    assert set(found.tabulations["RELEASES"]) == {12}
    assert set(found.tables["RELEASES"]) == {1}
    assert found.as_stated


def test_shares_are_the_people_dropped(report):
    cells = report.cells.filter(TABULATION="PH7", LEVEL="usa_*", SCALE=1.0)
    for tau in (1, 3, 5):
        own = cells.filter(TAU=tau)
        assert report.shares["PH7"][tau] == pytest.approx(-100 * own["TRUNCATION"].sum() / own["TRUTH"].sum(), abs=1e-5)
    assert set(report.shares) == {"PH7"}


def test_best_threshold_minimizes_expected_error(report):
    found = curves(report)
    assert {name for name, _ in found} == {"PH7"}
    for (name, level), of in found.items():
        assert [curve.scale for curve in of] == [1.0, 100.0]
        for curve in of:
            rows = report.tabulations.filter(TABULATION=name, LEVEL=level, SCALE=curve.scale)
            assert curve.best.tau == rows.sort("RMSE_EXPECTED", "TAU")["TAU"][0]
    # Truncation matters more if noise is small.
    state = found["PH7", "state_*"]
    assert state[0].best.tau <= state[1].best.tau


def test_regions_without_people_are_listed(make_config, small_frames):
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
    assert found.empty_regions == ["56"]
    assert found.tables.is_empty()
    assert found.lines.is_empty()


def test_census_edited_file_is_read_as_configured(tmp_path, make_config, small_frames, write_cef):
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
