"""Release folders: only complete and unmodified ones open; everything else is refused with a reason."""

from __future__ import annotations

import json
import shutil

import pytest

import phsafe
from phsafe.errors import OutputError
from phsafe.privacy.accountant import Loss, plan
from phsafe.privacy.ledger import Ledger
from phsafe.releases.manifest import hash_file
from phsafe.releases.release_folder import Release


@pytest.fixture(scope="module")
def intact(us, small, tmp_path_factory):
    folder = tmp_path_factory.mktemp("release")
    return phsafe.release(
        us, small, folder / "out", ledger=folder / "ledger", new_ledger=True, skip_validation=True
    ).path


@pytest.fixture
def folder(intact, tmp_path):
    copy = tmp_path / "release"
    shutil.copytree(intact, copy)
    return copy


def edit(folder, change):
    """Change the manifest."""
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def replace(folder, name, old, new):
    file = folder / name / f"{name.lower()}.csv"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def edit_a_count(folder):
    """Append a digit to the first count of PH2, which may be negative."""
    replace(folder, "PH2", "|Discrete", "1|Discrete")


def shorten(file):
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))


DAMAGE = {
    "no folder": (shutil.rmtree, "expected a release folder"),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), "expected a release folder"),
    "not JSON": (lambda f: (f / "manifest.json").write_text("{"), "expected JSON"),
    "another format": (lambda f: edit(f, lambda m: m.update(format="x")), "expected a manifest with format"),
    "a list": (lambda f: (f / "manifest.json").write_text("[]"), "expected a manifest with format"),
    "an invalid config": (lambda f: edit(f, lambda m: m["config"].update(tau={})), "tau: PH1_num"),
    "a list as the config": (lambda f: edit(f, lambda m: m.update(config=[])), "expected the config as a JSON object"),
    "a path as the config": (
        lambda f: edit(f, lambda m: m.update(config="examples/us.json")), "expected the config as a JSON object",
    ),
    "a missing table": (lambda f: (f / "PH2" / "ph2.csv").unlink(), "ph2.csv is missing"),
    "an extra file": (lambda f: (f / "PH2" / "more.csv").write_text(""), "got 1 more"),
    "an edited count": (edit_a_count, "its hash differs from the manifest"),
    "a malformed count": (lambda f: replace(f, "PH2", "|Discrete", "x|Discrete"), "or another layout"),
    "a removed row": (lambda f: shorten(f / "PH2" / "ph2.csv"), "don't match the grid of the config"),
    "another variance": (lambda f: replace(f, "PH2", "Discrete Gaussian|9", "Discrete Gaussian|8"), "VARIANCE doesn't"),
    "another noise": (lambda f: replace(f, "PH2", "Discrete Gaussian", "Gaussian"), "NOISE_DISTRIBUTION doesn't"),
    "a smaller stated loss": (lambda f: edit(f, lambda m: m["privacy"].update(rho=0.1)), "rho in the privacy"),
    "a loss of four hundred digits": (
        lambda f: edit(f, lambda m: m["privacy"].update(rho=10**400)), "rho in the privacy",
    ),
    "a loss as a string": (lambda f: edit(f, lambda m: m["privacy"].update(rho="1.257281")), "rho in the privacy"),
    "another loss beside it": (
        lambda f: edit(f, lambda m: m["privacy"].update(rho_for_a_household=0.0001)), "more than its config implies",
    ),
    "no privacy statement": (lambda f: edit(f, lambda m: m.pop("privacy")), "no privacy statement"),
    "unlisted files": (lambda f: edit(f, lambda m: m["files"].popitem()), "doesn't list exactly"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_release_is_refused(folder, name):
    damage, message = DAMAGE[name]
    damage(folder)
    with pytest.raises(OutputError) as refused:
        Release.open(folder)
    assert any(message in reason for reason in refused.value.reasons)


def test_an_intact_release_opens(folder):
    release = Release.open(folder)
    assert release.table("PH1")["TABULATION"].unique().sort().to_list() == ["PH1_denom", "PH1_num"]
    with pytest.raises(OutputError, match="expected one of PH1_num"):
        release.measurements("PH9")
    with pytest.raises(OutputError, match=r"expected one of PH1, PH2, .+, got 'PH9'$"):
        release.table("PH9")


def test_force_opens_an_edited_release(folder):
    edit_a_count(folder)
    assert Release.open(folder, force=True).measurements("PH2").height == 416


def test_check_reports_every_problem(phsafe_command, folder):
    checked = phsafe_command("check", folder)
    assert (checked.code, "complete and unmodified" in checked.out) == (0, True)
    edit_a_count(folder)
    (folder / "PH3" / "ph3.csv").unlink()
    broken = phsafe_command("check", folder)
    assert broken.code == 1
    assert "ph3.csv is missing" in broken.err and "ph2.csv was changed" in broken.err


def test_check_against_the_ledger_finds_an_older_copy(phsafe_command, folder, tmp_path):
    """A release that is missing from the ledger: the ledger was restored from a backup, or is the wrong one."""
    ledger = Ledger.create(tmp_path / "ledger", 10)
    unknown = phsafe_command("check", folder, "--ledger", ledger.path)
    assert unknown.code == 1 and "an older copy" in unknown.err
    opened = Release.open(folder)
    ledger.charge(plan(opened.config).total, opened.release_id, {})
    unfinished = phsafe_command("check", folder, "--ledger", ledger.path)
    assert unfinished.code == 1 and "it was charged but never finished" in unfinished.err
    ledger.finish(opened.release_id, hashes(folder))
    assert phsafe_command("check", folder, "--ledger", ledger.path).code == 0


def hashes(folder):
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): hash_file(path) for path in files}


def test_edited_counts_with_recomputed_hashes_are_found_on_the_ledger(phsafe_command, us, small, tmp_path):
    folder, ledger = tmp_path / "out", tmp_path / "ledger"
    phsafe.release(us, small, folder, ledger=ledger, new_ledger=True)
    assert phsafe_command("check", folder, "--ledger", ledger).code == 0
    edit_a_count(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["PH2/ph2.csv"] = hash_file(folder / "PH2" / "ph2.csv")
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert phsafe_command("check", folder).code == 0, "by itself it is consistent"
    assert phsafe.check(folder).path == folder
    with pytest.raises(phsafe.PHSafeError, match="is not the file that the ledger recorded"):
        phsafe.check(folder, ledger, tmp_path / "ledger.pub")
    found = phsafe_command("check", folder, "--ledger", ledger)
    assert found.code == 1
    for name in ("manifest.json", "PH2/ph2.csv"):
        assert f"{name} is not the file that the ledger recorded" in found.err
    assert "PH1" not in found.err


def test_check_trusts_only_an_intact_ledger_with_the_right_key_and_loss(phsafe_command, folder, tmp_path):
    opened = Release.open(folder)
    total = plan(opened.config).total
    ledger = Ledger.create(tmp_path / "ledger", 10)
    ledger.charge(Loss("zcdp", total.unbounded / 2, total.bounded), opened.release_id, {})
    ledger.finish(opened.release_id, hashes(folder))
    cheaper = phsafe_command("check", folder, "--ledger", ledger.path)
    assert cheaper.code == 1 and "its loss is not the one that was charged" in cheaper.err
    other = Ledger.create(tmp_path / "other", 10)
    wrong = phsafe_command("check", folder, "--ledger", ledger.path, "--public-key", f"{other.path}.pub")
    assert wrong.code == 1 and "can't be trusted" in wrong.err
    ledger.path.write_bytes(b"damaged")
    assert "can't be trusted" in phsafe_command("check", folder, "--ledger", ledger.path).err


def test_repr_is_short_and_leaves_out_the_path(folder):
    """Notebooks and logs, which include the repr, are shared."""
    release = phsafe.Release.open(folder)
    assert repr(release) == f"Release('release', release_id='{release.release_id}')"
    assert str(folder.parent) not in repr(release)
