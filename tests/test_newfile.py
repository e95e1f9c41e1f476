"""One file, whole or not at all."""

import os

import pytest

from phsafe import newfile
from phsafe.errors import OutputError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_whole(tmp_path):
    newfile.write_new(tmp_path / "out", b"content")
    assert (tmp_path / "out").read_bytes() == b"content" and names(tmp_path) == ["out"]


def test_a_disk_that_says_no_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        newfile.write_new(tmp_path / "out", b"content")
    assert names(tmp_path) == []


def test_a_planted_link_is_not_written_through(tmp_path, monkeypatch):
    """Even under the very name that is used next."""
    (tmp_path / "precious").write_bytes(b"mine")
    monkeypatch.setattr(newfile.secrets, "token_hex", lambda _: "guessed")
    (tmp_path / ".out.guessed.partial").symlink_to(tmp_path / "precious")
    with pytest.raises((OutputError, FileExistsError)):
        newfile.write_new(tmp_path / "out", b"content")
    assert (tmp_path / "precious").read_bytes() == b"mine"


def test_somebody_takes_the_name_meanwhile(tmp_path, monkeypatch):
    really = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: ((tmp_path / "out").write_bytes(b"mine"), really(descriptor)))
    with pytest.raises(OutputError, match="doesn't exist yet"):
        newfile.write_new(tmp_path / "out", b"content")
    assert (tmp_path / "out").read_bytes() == b"mine" and names(tmp_path) == ["out"]
