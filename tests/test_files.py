import os
import stat
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import pytest

from phsafe.errors import OutputError
from phsafe.files import PARTIAL, check_absent, new_folder, write_table
from phsafe.scratch import ScratchFolder
from phsafe.tables import CENSUS_2020


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


def test_whole(tmp_path):
    out = tmp_path / "out"
    with new_folder(out, private=True) as folder:
        fill(folder)
        assert not out.exists()
        assert folder.parent == tmp_path
        assert mode(folder) == 0o700
    assert (out / "a" / "b.csv").read_text() == "x"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, OutputError])
def test_or_not_at_all(tmp_path, error):
    with pytest.raises(error), new_folder(tmp_path / "out", private=False) as folder:
        fill(folder)
        raise error("in the middle")
    assert names(tmp_path) == []


def test_a_disk_that_says_no(tmp_path):
    with (
        pytest.raises(OutputError, match="No space left"),
        new_folder(tmp_path / "out", private=True) as folder,
    ):
        fill(folder)
        raise OSError(28, "No space left on device")
    assert names(tmp_path) == []


def test_private_modes_whatever_the_umask(tmp_path, open_umask):
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


@pytest.mark.parametrize("kind", ["folder", "file", "link", "dangling", "loop"])
def test_nothing_there_is_ever_replaced(tmp_path, kind):
    out, target = tmp_path / "out", tmp_path / "target"
    if kind == "folder":
        out.mkdir()
    elif kind == "file":
        out.write_text("mine")
    else:
        if kind == "link":
            target.mkdir()
        out.symlink_to(out if kind == "loop" else target)
    before = names(tmp_path)
    with pytest.raises(OutputError, match="doesn't exist yet"):
        check_absent(out)
    with pytest.raises(OutputError), new_folder(out, private=True):
        pytest.fail("it was opened")
    assert names(tmp_path) == before
    assert kind != "link" or names(target) == []


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_somebody_takes_the_name_meanwhile(tmp_path, kind):
    out = tmp_path / "out"
    with pytest.raises(OutputError), new_folder(out, private=True) as folder:
        fill(folder)
        if kind == "file":
            out.write_text("mine")
        elif kind == "folder":
            out.mkdir()
        else:
            out.symlink_to(tmp_path / "elsewhere")
    assert names(tmp_path) == ["out"]
    assert kind != "folder" or names(out) == []
    assert kind != "file" or out.read_text() == "mine"


def test_two_runs_for_one_name(tmp_path):
    """The second is refused before it does any work; what a killed one left is removed."""
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


def test_everything_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """And then the name: after a power cut there is the whole folder or none."""
    done, flush, rename = [], os.fsync, Path.rename

    def flushed(descriptor):
        done.append(Path(f"/dev/fd/{descriptor}").resolve().name)
        flush(descriptor)

    def named(path, out):
        done.append("its name")
        return rename(path, out)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(Path, "rename", named)
    with new_folder(tmp_path / "out", private=True) as folder:
        fill(folder)
    assert done == ["c", "b.csv", "a", folder.name, "its name", tmp_path.name]


@pytest.mark.parametrize(("number", "fails"), [(22, False), (95, False), (5, True)])
def test_folders_that_can_t_be_flushed(tmp_path, monkeypatch, number, fails):
    """Some file systems can't flush folders; a disk that fails is another matter."""
    really = os.fsync

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        really(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with (
        pytest.raises(OutputError) if fails else nullcontext(),
        new_folder(tmp_path / "out", private=True) as folder,
    ):
        fill(folder)
    assert names(tmp_path) == ([] if fails else ["out"])


def test_no_parent(tmp_path):
    with pytest.raises(OutputError, match="make it first"):
        check_absent(tmp_path / "a" / "b")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError):
        check_absent(tmp_path / "file" / "b")


def test_a_folder_that_can_t_be_written(tmp_path, powerless):
    tmp_path.chmod(0o500)
    code = "import sys, pathlib; from phsafe.files import check_absent; check_absent(pathlib.Path(sys.argv[1]))"
    try:
        assert "change its permissions" in powerless(code, tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("name", ["a'b", 'a"b', "a*b", "a[b]", "a?b", "a\nb", "-x", "é", "%s{}", " "])
def test_odd_names(tmp_path, name):
    with new_folder(tmp_path / name, private=True) as folder:
        fill(folder)
    assert names(tmp_path) == [name]


def test_too_long_a_name(tmp_path):
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


def test_the_production_layout(tmp_path):
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
