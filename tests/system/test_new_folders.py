"""Atomic writes of folders."""

import os
import stat
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import pytest

from phsafe.errors import OutputError
from phsafe.model.tables import CENSUS_2020
from phsafe.releases.file_layout import write_table
from phsafe.system.atomic_writes import PARTIAL, check_new_folder, new_folder
from phsafe.system.scratch import ScratchFolder


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.lstat().st_mode)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fill(folder):
    (folder / "a").mkdir()
    (folder / "a" / "b.csv").write_text("x")
    (folder / "c").write_text("y")


def test_a_complete_folder(tmp_path):
    out = tmp_path / "out"
    with new_folder(out, private=True) as folder:
        fill(folder)
        assert not out.exists()
        assert folder.parent == tmp_path
        assert mode(folder) == 0o700
    assert (out / "a" / "b.csv").read_text() == "x"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, OutputError])
def test_an_error_leaves_nothing_behind(tmp_path, error):
    with pytest.raises(error), new_folder(tmp_path / "out", private=False) as folder:
        fill(folder)
        raise error("in the middle")
    assert names(tmp_path) == []


def test_a_full_disk_leaves_nothing_behind(tmp_path):
    with (
        pytest.raises(OutputError, match="No space left"),
        new_folder(tmp_path / "out", private=True) as folder,
    ):
        fill(folder)
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == []


def test_private_modes_ignore_the_umask(tmp_path, open_umask):
    with new_folder(tmp_path / "out", private=True) as folder:
        fill(folder)
        assert mode(folder) == 0o700
    out = tmp_path / "out"
    assert mode(out) == mode(out / "a") == 0o700
    assert mode(out / "c") == mode(out / "a" / "b.csv") == 0o600


def test_public_modes_follow_the_umask(tmp_path, open_umask):
    os.umask(0o027)
    with new_folder(tmp_path / "out", private=False) as folder:
        fill(folder)
    out = tmp_path / "out"
    assert mode(out) == mode(out / "a") == 0o750
    assert mode(out / "c") == mode(out / "a" / "b.csv") == 0o640


@pytest.mark.parametrize("existing", ["folder", "file", "link", "dangling", "loop"])
def test_nothing_that_exists_is_replaced(tmp_path, existing):
    out, target = tmp_path / "out", tmp_path / "target"
    if existing == "folder":
        out.mkdir()
    elif existing == "file":
        out.write_text("mine")
    else:
        if existing == "link":
            target.mkdir()
        out.symlink_to(out if existing == "loop" else target)
    before = names(tmp_path)
    with pytest.raises(OutputError, match="doesn't exist yet"):
        check_new_folder(out)
    with pytest.raises(OutputError), new_folder(out, private=True):
        pytest.fail("it was opened")
    assert names(tmp_path) == before
    assert existing != "link" or names(target) == []


@pytest.mark.parametrize("created", ["file", "folder", "link"])
def test_a_name_taken_meanwhile_is_not_replaced(tmp_path, created):
    out = tmp_path / "out"
    with pytest.raises(OutputError), new_folder(out, private=True) as folder:
        fill(folder)
        if created == "file":
            out.write_text("mine")
        elif created == "folder":
            out.mkdir()
        else:
            out.symlink_to(tmp_path / "elsewhere")
    assert names(tmp_path) == ["out"]
    assert created != "folder" or names(out) == []
    assert created != "file" or out.read_text() == "mine"


def test_two_runs_with_the_same_name(tmp_path):
    """The second run is refused before it does any work; leftovers of a killed run are removed."""
    out = tmp_path / "out"
    with new_folder(out, private=True) as folder:
        fill(folder)
        with pytest.raises(OutputError, match="another run is writing"), new_folder(out, private=True):
            pytest.fail("it was opened")
    assert names(tmp_path) == ["out"]
    os.close(ScratchFolder(tmp_path, ".next.", PARTIAL)._descriptor)  # as the system does when a process ends
    with new_folder(tmp_path / "next", private=True) as folder:
        assert names(tmp_path) == [folder.name, "out"]
    assert names(tmp_path) == ["next", "out"]


def test_everything_is_flushed_before_the_rename(tmp_path, monkeypatch):
    """And the rename last: after a power cut the folder is complete or absent."""
    done, flush, rename = [], os.fsync, Path.rename

    def flushed(descriptor):
        done.append(Path(f"/dev/fd/{descriptor}").resolve().name)
        flush(descriptor)

    def renamed(path, out):
        done.append("rename")
        return rename(path, out)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "rename", renamed)
    with new_folder(tmp_path / "out", private=True) as folder:
        fill(folder)
    assert done == ["c", "b.csv", "a", folder.name, "rename", tmp_path.name]


@pytest.mark.parametrize(("number", "fails"), [(22, False), (95, False), (5, True)])
def test_folders_that_cannot_be_flushed(tmp_path, monkeypatch, number, fails):
    """Some file systems can't flush folders, which is fine; a failing disk is an error."""
    original = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with (
        pytest.raises(OutputError) if fails else nullcontext(),
        new_folder(tmp_path / "out", private=True) as folder,
    ):
        fill(folder)
    assert names(tmp_path) == ([] if fails else ["out"])


def test_a_missing_parent(tmp_path):
    with pytest.raises(OutputError, match="create it first"):
        check_new_folder(tmp_path / "a" / "b")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        check_new_folder(tmp_path / "file" / "b")


def test_a_parent_that_cannot_be_written(tmp_path, powerless):
    tmp_path.chmod(0o500)
    code = "import sys, pathlib; from phsafe.system import atomic_writes; "
    code += "atomic_writes.check_new_folder(pathlib.Path(sys.argv[1]))"
    try:
        assert "change its permissions" in powerless(code, tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("name", ["a'b", 'a"b', "a*b", "a[b]", "a?b", "a\nb", "-x", "é", "%s{}", " "])
def test_unusual_names(tmp_path, name):
    with new_folder(tmp_path / name, private=True) as folder:
        fill(folder)
    assert names(tmp_path) == [name]


def test_a_name_that_is_too_long(tmp_path):
    with pytest.raises(OutputError), new_folder(tmp_path / ("x" * 250), private=True):
        pytest.fail("it was opened")
    assert names(tmp_path) == []


def test_a_relative_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with new_folder(Path("out"), private=True) as folder:
        fill(folder)
    assert (tmp_path / "out" / "c").exists()


def frame(**columns):
    keys = {"REGION_ID": ["44"], "REGION_TYPE": ["STATE"], "ITERATION_CODE": ["A"], "DATA_CELL": [2]}
    return pl.DataFrame(keys | columns)


def test_tables_have_the_production_layout(tmp_path):
    outputs = {output.name: output for output in CENSUS_2020.outputs}
    path = write_table(tmp_path, CENSUS_2020, outputs["PH1_num"], frame(COUNT=[7], VARIANCE=[1.5]))
    assert path == Path("PH1_num/ph1_num.csv")
    assert (tmp_path / path).read_bytes() == (
        b"REGION_ID|REGION_TYPE|ITERATION_CODE|PH1_NUM_DATA_CELL|COUNT|VARIANCE\n44|STATE|A|2|7|1.5\n"
    )
    path = write_table(tmp_path, CENSUS_2020, outputs["PH6"], frame(COUNT=[7]))
    assert (tmp_path / path).read_bytes() == b"REGION_ID|REGION_TYPE|PH6_DATA_CELL|COUNT\n44|STATE|2|7\n"
    path = write_table(tmp_path, CENSUS_2020, outputs["PH5_num"], frame(COUNT=[7]))
    assert (tmp_path / path).read_text().splitlines()[0] == (
        "REGION_ID|REGION_TYPE|ITERATION_CODE|PH5_NUM_DATA_CELL|COUNT"
    )
