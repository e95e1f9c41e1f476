"""`phsafe accuracy` as a user runs it."""

import json
import shutil

import pytest


@pytest.fixture
def public(tmp_path, small):
    data = tmp_path / "data"
    shutil.copytree(small, data)
    (data / "PUBLIC").write_text("made up")
    return data


@pytest.fixture
def config(tmp_path, us_document):
    for name, levels in us_document["privacy_budget"].items():
        if name not in ("PH7", "PH8_denom"):
            levels.update(dict.fromkeys(levels, 0))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(us_document | {"state_filter": ["50", "56"]}, default=float))
    return path


def test_accuracy_writes_a_report(phsafe_command, public, config, tmp_path):
    out = tmp_path / "out"
    done = phsafe_command(
        "accuracy", config, public, out, "--trials", 4, "--estimate-trials", 1, "--tau", "2,4", "--scale", "1,2",
        "--jobs", 1, "--skip-validation",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "τ with the lowest total error, budgets × 1, 2" in " ".join(done.out.split())
    assert "Finished tables, releases: 1" in done.out
    assert f"phsafe explore --shares {out}/shares.json" in done.out
    assert "The noise is as stated" in done.err
    assert (out / "accuracy.html").is_file()


def test_a_threshold_that_is_no_number_is_a_wrong_command(phsafe_command, public, config, tmp_path):
    assert phsafe_command("accuracy", config, public, tmp_path / "out", "--tau", "6,ten").code == 2
    assert phsafe_command("accuracy", config, public, tmp_path / "out", "--trials", "1").code == 2


def test_confidential_data_are_refused_before_anything_is_counted(phsafe_command, small, config, tmp_path):
    done = phsafe_command("accuracy", config, small, tmp_path, "--scale", "0")
    assert done.code == 1
    assert done.err.count("phsafe: error:") == 3
    assert "--i-know-this-is-public" in done.err
    assert "accuracy:" not in done.err
    assert not list(tmp_path.glob(".*"))


def test_wrong_noise_fails_the_command_but_leaves_the_report(phsafe_command, public, config, tmp_path, monkeypatch):
    from phsafe.accuracy_study.study import Accuracy

    monkeypatch.setattr(Accuracy, "as_stated", False)
    done = phsafe_command(
        "accuracy", config, public, tmp_path / "out", "--trials", 2, "--estimate-trials", 0, "--jobs", 1,
        "--skip-validation",
    )  # fmt: skip
    assert done.code == 1
    assert "not as stated" in done.err
    assert (tmp_path / "out" / "accuracy.html").is_file()
