"""Release folders: what is not whole and untouched is refused, in words."""

from __future__ import annotations

import json
import shutil

import pytest

import phsafe
from phsafe.errors import OutputError
from phsafe.folder import Release
from phsafe.privacy.accountant import plan
from phsafe.privacy.ledger import Ledger


@pytest.fixture(scope="module")
def original(us, small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    return phsafe.release(us, small, folder / "out", ledger=folder / "ledger", skip_validation=True).path


@pytest.fixture
def folder(original, tmp_path):
    copy = tmp_path / "release"
    shutil.copytree(original, copy)
    return copy


def edit(folder, change):
    """Change the manifest's document."""
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def replace(folder, name, old, new):
    file = folder / name / f"{name.lower()}.csv"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def shorten(file):
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))


DAMAGES = {
    "no folder": (shutil.rmtree, "expected a release folder"),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "expected a release folder"),
    "not JSON": (lambda f: (f / "manifest.json").write_text("{"), "expected JSON"),
    "another format": (lambda f: edit(f, lambda m: m.update(format="x")), "expected a manifest of the form"),
    "a list": (lambda f: (f / "manifest.json").write_text("[]"), "expected a manifest of the form"),
    "a config that is none": (lambda f: edit(f, lambda m: m["config"].update(tau={})), "tau: PH1_num"),
    "a list for a config": (lambda f: edit(f, lambda m: m.update(config=[])), "expected the config as an object"),
    "another file's name for a config": (
        lambda f: edit(f, lambda m: m.update(config="examples/us.json")), "expected the config as an object",
    ),
    "a missing table": (lambda f: (f / "PH2" / "ph2.csv").unlink(), "ph2.csv is missing"),
    "another file": (lambda f: (f / "PH2" / "more.csv").write_text(""), "1 files do not belong"),
    "an edited count": (lambda f: replace(f, "PH2", "|3|", "|3|1"), "its hash is not the manifest's"),
    "a count that is none": (lambda f: replace(f, "PH2", "|Discrete", "x|Discrete"), "got another form"),
    "a removed row": (lambda f: shorten(f / "PH2" / "ph2.csv"), "not the grid of the config"),
    "another variance": (lambda f: replace(f, "PH2", "Discrete Gaussian|9", "Discrete Gaussian|8"), "VARIANCE is not"),
    "another noise": (lambda f: replace(f, "PH2", "Discrete Gaussian", "Gaussian"), "NOISE_DISTRIBUTION is not"),
    "a smaller stated loss": (lambda f: edit(f, lambda m: m["privacy"].update(rho=0.1)), "statement's rho is not"),
    "a loss of four hundred digits": (
        lambda f: edit(f, lambda m: m["privacy"].update(rho=10**400)), "statement's rho is not",
    ),
    "a loss in words": (lambda f: edit(f, lambda m: m["privacy"].update(rho="1.257281")), "statement's rho is not"),
    "no statement": (lambda f: edit(f, lambda m: m.pop("privacy")), "no privacy statement"),
    "unlisted files": (lambda f: edit(f, lambda m: m["files"].popitem()), "does not list exactly"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_release_is_refused(folder, name):
    damage, words = DAMAGES[name]
    damage(folder)
    with pytest.raises(OutputError) as refused:
        Release.open(folder)
    assert any(words in reason for reason in refused.value.reasons)


def test_an_untouched_release_opens(folder):
    release = Release.open(folder)
    assert release.table("PH1")["TABULATION"].unique().sort().to_list() == ["PH1_denom", "PH1_num"]
    with pytest.raises(OutputError, match="expected one of PH1_num"):
        release.measurements("PH9")
    with pytest.raises(OutputError, match="published table"):
        release.table("PH9")


def test_force_opens_an_edited_release(folder):
    replace(folder, "PH2", "|3|", "|3|1")
    assert Release.open(folder, force=True).measurements("PH2").height == 416


def test_check_says_so(phsafe_command, folder):
    whole = phsafe_command("check", folder)
    assert (whole.code, "whole and untouched" in whole.out) == (0, True)
    replace(folder, "PH2", "|3|", "|3|1")
    (folder / "PH3" / "ph3.csv").unlink()
    broken = phsafe_command("check", folder)
    assert broken.code == 1
    assert "ph3.csv is missing" in broken.err and "ph2.csv was changed" in broken.err


def test_check_against_the_ledger_finds_an_older_copy(phsafe_command, folder, tmp_path):
    """A published release that the ledger does not know: the ledger was put back, or is another's."""
    ledger = Ledger.create(tmp_path / "ledger", 10)
    unknown = phsafe_command("check", folder, "--ledger", ledger.path)
    assert unknown.code == 1 and "an older copy" in unknown.err
    opened = Release.open(folder)
    ledger.charge(plan(opened.config).total, opened.release_id, {})
    assert phsafe_command("check", folder, "--ledger", ledger.path).code == 0


def test_a_release_shows_itself_shortly_and_without_its_place(folder):
    """Notebooks and logs keep what Python shows, and others read them."""
    release = phsafe.Release.open(folder)
    assert repr(release) == f"Release('release', release_id='{release.release_id}')"
    assert str(folder.parent) not in repr(release)
