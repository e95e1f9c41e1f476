"""Atomic writes of a single file."""

import os

import pytest

from phsafe.errors import OutputError
from phsafe.system import atomic_writes


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_complete_file(tmp_path):
    atomic_writes.write_new_file(tmp_path / "out", b"content")
    assert (tmp_path / "out").read_bytes() == b"content" and names(tmp_path) == ["out"]


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="No space left"):
        atomic_writes.write_new_file(tmp_path / "out", b"content")
    assert names(tmp_path) == []


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    """Even if its name is the one used next."""
    (tmp_path / "precious").write_bytes(b"mine")
    monkeypatch.setattr(atomic_writes.secrets, "token_hex", lambda _: "guessed")
    (tmp_path / ".out.guessed.partial").symlink_to(tmp_path / "precious")
    with pytest.raises((OutputError, FileExistsError)):
        atomic_writes.write_new_file(tmp_path / "out", b"content")
    assert (tmp_path / "precious").read_bytes() == b"mine"


def test_a_file_created_meanwhile_is_not_replaced(tmp_path, monkeypatch):
    original = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: ((tmp_path / "out").write_bytes(b"mine"), original(descriptor)))
    with pytest.raises(OutputError, match="doesn't exist yet"):
        atomic_writes.write_new_file(tmp_path / "out", b"content")
    assert (tmp_path / "out").read_bytes() == b"mine" and names(tmp_path) == ["out"]
