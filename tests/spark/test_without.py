"""Without Java or PySpark, Spark is refused with one sentence that says what to install, and DuckDB still works."""

import sys

import pytest

from phsafe import tabulate
from phsafe.engines import EngineOptions, open_engine, started
from phsafe.errors import PHSafeError
from phsafe.readers import spark_session


def refused(**options):
    with pytest.raises(PHSafeError) as caught:
        open_engine(EngineOptions("spark", **options))
    assert len(caught.value.reasons) == 1
    return str(caught.value)


def test_no_pyspark(monkeypatch, phsafe_command, us, small, tmp_path):
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert "pip install 'phsafe[spark]'" in refused()
    done = phsafe_command("tabulate", us, small, tmp_path / "out", "--engine", "spark")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert tabulate(us, small).height == 12_688


def test_an_old_pyspark(monkeypatch):
    monkeypatch.setattr("pyspark.__version__", "3.5.6")
    assert "PySpark 4" in refused()


@pytest.mark.parametrize("home", [None, "/no/such/home"])
def test_no_java(monkeypatch, tmp_path, us, small, home):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home:
        monkeypatch.setenv("JAVA_HOME", home)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr(spark_session, "_running", lambda: None)
    assert "install it, for example the Debian package openjdk-17-jre-headless" in refused()
    assert tabulate(us, small).height == 12_688


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "duckdb", "spark_master": "local"},
        {"engine": "duckdb", "spark_conf": {"a": "b"}},
        {"engine": "duckdb", "session": object()},
        {"engine": "spark", "threads": 2},
        {"engine": "spark", "memory_limit": "4GB"},
        {"engine": "abacus"},
    ],
)
def test_options_of_the_other_engine_are_refused(options):
    for call in (open_engine, started):
        with pytest.raises(PHSafeError), call(EngineOptions(**options)):
            pass


@pytest.mark.parametrize("word", ["nothing", "=x", ""])
def test_malformed_settings_are_a_usage_error(phsafe_command, us, small, tmp_path, word):
    done = phsafe_command("tabulate", us, small, tmp_path / "out", "--engine", "spark", "--spark-conf", word)
    assert done.code == 2
    assert "KEY=VALUE" in done.err


def test_an_address_needs_a_named_ledger(phsafe_command, us, tmp_path):
    done = phsafe_command("release", us, "s3a://bucket/census", tmp_path / "out", "--engine", "spark")
    assert done.code == 1
    assert "--ledger" in done.err


@pytest.mark.parametrize(
    ("master", "shown"),
    [
        ("local[2]", "local[2]"),
        ("spark://host:7077", "spark://host:7077"),
        ("sc://host:443/;use_ssl=true;token=secret", "sc://host:443"),
        ("k8s://https://host:6443", "k8s://https://host:6443"),
    ],
)
def test_addresses_are_shown_without_secrets(master, shown):
    assert spark_session.redacted(master) == shown
