"""Configs that ship with the package: every file in the folder, by its name."""

from pathlib import Path

import pytest

import phsafe
from phsafe.configs.shipped import shipped_names, shipped_text
from phsafe.errors import ConfigError

FOLDER = Path(phsafe.__file__).parent / "configs" / "parameters"


def test_every_file_in_the_folder_is_a_shipped_config():
    assert {"us", "pr"} <= set(shipped_names())
    assert sorted(path.stem for path in FOLDER.glob("*.json")) == list(shipped_names())


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_config_loads(name):
    assert phsafe.config(name) == phsafe.Config.load(FOLDER / f"{name}.json")
    assert shipped_text(name) == (FOLDER / f"{name}.json").read_text()


@pytest.mark.parametrize("name", ["", "..", "../us", "us.json/", "/etc/passwd", "us\x00", "x" * 10_000])
def test_a_name_is_not_a_path(name):
    with pytest.raises(ConfigError) as refused:
        phsafe.config(name)
    assert len(refused.value.reasons) == 1 and len(str(refused.value)) < 300
