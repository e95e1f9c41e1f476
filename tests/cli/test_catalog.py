"""`--catalog FILE` on every command that takes a config, and the same in Python."""

from __future__ import annotations

import json

import pytest

import phsafe
from phsafe.cli.app import COMMANDS
from phsafe.errors import ConfigError
from phsafe.model.conditions import where
from phsafe.model.exact_numbers import dumps
from phsafe.model.levels import NATION, STATE, UNATTRIBUTED, Level
from phsafe.model.spec import Catalog, Line, Table, Tabulation
from phsafe.privacy_math.sensitivity import MODES

TENURE = Table(
    "T", "Units by tenure", "Occupied units",
    (Line(1, "Total:", 0, (2, 3)), Line(2, "Owned", 1), Line(3, "Rented", 1)),
    (Tabulation("T", {2: where(TEN=["1", "2"]), 3: where(TEN=["3", "4"])}, units=where(HHT=list("1234567"))),),
)  # fmt: skip
OWN = Catalog((TENURE,), (Level(NATION, UNATTRIBUTED), Level(STATE, UNATTRIBUTED)))
CONFIG = {"privacy_budget": {"T": {"usa_*": 1, "state_*": 1}}, "tau": {}, "state_filter": ["44", "56"]}


@pytest.fixture
def files(tmp_path):
    """A config and its catalog as files."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "own.json").write_text(dumps(OWN.to_document()))
    (tmp_path / "targets.toml").write_text("total = 1\n")
    return tmp_path


#: Command → its arguments. What isn't a file of the test goes to the folder `out`.
WORDS = {
    "validate": ("config.json", "DATA"),
    "tabulate": ("config.json", "DATA", "out"),
    "release": ("config.json", "DATA", "out"),
    "accuracy": ("config.json", "DATA", "out", "--trials", "20", "--i-know-this-is-public"),
    "budget": ("config.json",),
    "solve": ("config.json", "targets.toml", "out"),
    "workbook": ("config.json", "out"),
}


def words(files, small, command):
    (files / "out").mkdir()
    places = {"DATA": small, "out": files / "out" / "new"} | {n: files / n for n in ("config.json", "targets.toml")}
    more = ("--new-ledger", "--ledger", files / "ledger") if command == "release" else ()
    return (command, *(places.get(word, word) for word in WORDS[command]), *more)


@pytest.mark.parametrize("command", WORDS)
def test_every_command_with_a_config_takes_a_catalog(phsafe_command, files, small, command):
    given = words(files, small, command)
    outcome = phsafe_command(*given, "--catalog", files / "own.json")
    assert outcome.code == 0, outcome
    without = phsafe_command(*given)
    assert without.code == 1 and "PH1_num" in without.err


def test_no_command_with_a_config_is_missing():
    with_config = {c.__name__ for group in COMMANDS.values() for c in group if "config" in c.__annotations__}
    assert {name for name in with_config if "catalog" not in _options(name)} == set()
    assert with_config >= {*WORDS, "explore"}


def _options(name):
    (command,) = [c for group in COMMANDS.values() for c in group if c.__name__ == name]
    return command.__annotations__


@pytest.mark.parametrize("command", WORDS)
def test_a_bad_catalog_is_refused_and_nothing_is_made(phsafe_command, files, small, command):
    document = OWN.to_document()
    document["tables"][0]["tabulations"][0]["cells"]["3"] = {"TEN": "2-4"}
    document["more"] = 1
    (files / "own.json").write_text(dumps(document))
    outcome = phsafe_command(*words(files, small, command), "--catalog", files / "own.json")
    assert outcome.code == 1
    assert "T: cells 2 and 3 overlap" in outcome.err and "got more" in outcome.err
    assert list((files / "out").iterdir()) == [] and not (files / "ledger").exists()


def test_calls_take_a_file_a_document_or_a_catalog(files, small):
    for catalog in (files / "own.json", str(files / "own.json"), OWN.to_document(), OWN):
        assert phsafe.Config.load(CONFIG, catalog).catalog == OWN
        assert len(phsafe.budget(CONFIG, catalog=catalog).rows) == 2
    file = files / "own.json"
    counts = phsafe.tabulate(CONFIG, small, catalog=file)
    assert counts["TABULATION"].unique().to_list() == ["T"]
    assert phsafe.validate(CONFIG, small, catalog=file).ok
    assert [b.config.sensitivity for b in phsafe.compare(CONFIG, catalog=file).budgets] == list(MODES)
    assert phsafe.solve(CONFIG, {"total": 1}, catalog=file).config.total == 1
    made = phsafe.release(CONFIG, small, files / "release", ledger=files / "ledger", new_ledger=True, catalog=file)
    assert made.config.catalog == OWN and made.tables == ("T",)
    study = phsafe.accuracy(CONFIG, small, trials=2, estimate_trials=0, public=True, jobs=1, catalog=file)
    assert study.config.catalog == OWN


def test_a_loaded_config_keeps_its_catalog(files):
    config = phsafe.Config.load(CONFIG, OWN)
    assert phsafe.budget(config).config is config
    assert phsafe.budget(config, catalog=files / "own.json").config is config
    with pytest.raises(ConfigError, match="expected the catalog of the loaded config"):
        phsafe.budget(config, catalog=phsafe.CENSUS_2020)


def test_explore_opens_a_release_with_its_own_catalog(files, small):
    from phsafe.cli.explore import _config

    made = phsafe.release(CONFIG, small, files / "release", ledger=files / "ledger", new_ledger=True, catalog=OWN)
    assert _config(made.path, None).catalog == OWN
    assert _config(files / "config.json", files / "own.json").catalog == OWN
    assert _config(None, None) is None
    with pytest.raises(ConfigError, match="a release, which has its own"):
        _config(made.path, files / "own.json")
    with pytest.raises(ConfigError, match="expected only T"):
        _config(None, files / "own.json")
