"""The README's tour works as written: its data pass validation with its config, as a release needs."""

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_data_of_the_tour_pass_validation(phsafe_command, tmp_path, monkeypatch):
    tour = re.findall(r"^\| [^|]+\| `phsafe ([^`]+)`", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for name in ("synth", "validate"):
        (command,) = (one for one in tour if one.startswith(f"{name} "))
        outcome = phsafe_command(*shlex.split(command))
        assert outcome.code == 0, outcome.out + outcome.err
