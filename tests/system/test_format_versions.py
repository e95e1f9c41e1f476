"""Formats carry a version, and any other version is refused with the way to go on."""

import json
import re
from pathlib import Path

import pytest

import phsafe
from phsafe.errors import PHSafeError
from phsafe.estimation.read_estimates import read
from phsafe.explorer.page_answers import opened, scenario_2020
from phsafe.explorer.public_tables import truncation
from phsafe.model.tables import CENSUS_2020
from phsafe.system.format_versions import ESTIMATES, FORMATS, SCENARIOS, FileFormat

ROOT = Path(__file__).resolve().parents[2]
NEWER = "a newer version of PHSafe wrote it"


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_only_the_own_version_is_accepted(format):
    format.check("x", str(format))
    for found, way in (
        (f"{format.name}/{format.version + 1}", NEWER),
        (f"{format.name}/{format.version}0", NEWER),
        (None, format.if_older),
        (f"{format.name}/0", format.if_older),
        (f"{format.name}/x", format.if_older),
        (f"{format.name}/{format.version} ", format.if_older),
        ("phsafe-other/1", format.if_older),
        (format.version, format.if_older),
        ({}, format.if_older),
    ):
        with pytest.raises(PHSafeError) as refused:
            format.check("x", found)
        assert len(refused.value.reasons) == 1
        assert str(refused.value).startswith(f"x: expected format {format}, got ")
        assert str(refused.value).endswith(way) or way in str(refused.value)


def test_an_older_version_is_told_how_to_go_on():
    later = FileFormat("phsafe-later", 3, "make it again")
    with pytest.raises(PHSafeError, match="expected format phsafe-later/3, got phsafe-later/2; make it again"):
        later.check("x", "phsafe-later/2")


def test_a_hostile_format_is_not_repeated():
    with pytest.raises(PHSafeError) as refused:
        ESTIMATES.check("x", "S3CRET\n" * 1000)
    assert "S3CRET" not in str(refused.value)


@pytest.fixture(scope="module")
def estimates(small, tmp_path_factory):
    home = tmp_path_factory.mktemp("formats")
    release = phsafe.release(
        ROOT / "examples" / "us.json", small, home / "release", ledger=home / "small.ledger", new_ledger=True
    )
    return phsafe.estimate(release, "independent")


@pytest.mark.parametrize(("version", "way"), [("phsafe-estimates/9", NEWER), (None, "run phsafe estimate")])
def test_finished_tables(estimates, tmp_path, version, way):
    folder = estimates.write(tmp_path / "tables")
    file = folder / "diagnostics.json"
    document = json.loads(file.read_text())
    assert document["format"] == "phsafe-estimates/1"
    assert read(folder, estimates.config).diagnostics == estimates.diagnostics
    del document["format"]
    file.write_text(json.dumps(document | ({"format": version} if version else {})))
    with pytest.raises(PHSafeError, match=way):
        read(folder, estimates.config)


def test_scenarios():
    page = (ROOT / "src" / "phsafe" / "explorer" / "static" / "files.js").read_text()
    written = re.search(r'format: "([\w-]+)", version: (\d+)', page)
    assert f"{written[1]}/{written[2]}" == str(SCENARIOS)
    scenarios = [scenario_2020().to_dict()]
    for stated in ({"format": "phsafe-scenarios", "version": 1}, {}):
        assert opened({"text": json.dumps({**stated, "scenarios": scenarios})}, CENSUS_2020)["scenarios"] == scenarios
    for stated, way in (
        ({"format": "phsafe-scenarios", "version": 2}, NEWER),
        ({"format": "phsafe-scenarios"}, "export the scenario again"),
        ({"version": 1}, "export the scenario again"),
    ):
        with pytest.raises(PHSafeError, match=way):
            opened({"text": json.dumps({**stated, "scenarios": scenarios})}, CENSUS_2020)


def test_shares(tmp_path):
    file = tmp_path / "shares.json"
    for stated in ({"format": "phsafe-shares/1"}, {}):
        file.write_text(json.dumps({**stated, "shares": {"PH3": {"6": 0.5}}}))
        assert truncation(file).dropped("PH3", 6) == 0.5
    file.write_text(json.dumps({"format": "phsafe-shares/2", "shares": {"PH3": {"6": 0.5}}}))
    with pytest.raises(PHSafeError, match=NEWER):
        truncation(file)


def test_the_documentation_lists_every_format():
    page = (ROOT / "docs" / "reference" / "formats.md").read_text()
    assert [str(format) for format in FORMATS if f"`{format}`" not in page] == []
