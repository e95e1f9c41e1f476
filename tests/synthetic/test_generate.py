"""The `phsafe synth` command."""

import polars as pl
import pytest
import typer
from typer.testing import CliRunner

from phsafe.cli.synth import synth
from phsafe.errors import PHSafeError
from phsafe.synthetic import DEFAULT_SEED


@pytest.fixture
def run():
    app = typer.Typer()
    app.command()(synth)
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_it_generates_a_folder_and_reports_on_standard_error(run, tmp_path):
    result = run(tmp_path / "out", "--households", 500, "--states", "44,56", "--format", "csv")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "500 households" in result.stderr
    assert f"seed {DEFAULT_SEED}" in result.stderr
    assert pl.read_csv(tmp_path / "out" / "units.csv").height > 500


def test_mistakes_raise_a_phsafe_error(run, tmp_path):
    result = run(tmp_path / "out", "--households", -3)
    assert isinstance(result.exception, PHSafeError)
    assert list(tmp_path.iterdir()) == []
