"""The phsafe command on real clusters: a standalone cluster with a master and two workers, and Spark Connect."""

import filecmp
import json
import os
import re
import socket
import subprocess
import threading
import time

import pytest

from phsafe.privacy.ledger import Ledger
from phsafe.releases.release_folder import Release

pytestmark = pytest.mark.needs("java")


@pytest.fixture(scope="session")
def tiny(helpers):
    """Settings that speed up queries on small data."""
    return helpers.settings({k: v for k, v in helpers.TINY.items() if k not in helpers.SMALL})


@pytest.fixture(params=["standalone", "connect"])
def where(request, helpers):
    """The command line options that select a cluster."""
    if request.param == "connect":
        return ["--engine", "spark", "--spark-master", request.getfixturevalue("connect")]
    master = request.getfixturevalue("cluster").master
    return ["--engine", "spark", "--spark-master", master, *helpers.settings(helpers.ON_CLUSTER)]


@pytest.fixture(scope="module")
def config(us, tmp_path_factory):
    """The 2020 parameters with low thresholds that truncate many households."""
    document = json.loads(us.read_text())
    document["tau"] = dict.fromkeys(document["tau"], 3)
    path = tmp_path_factory.mktemp("config") / "us.json"
    path.write_text(json.dumps(document))
    return path


def same(one, other):
    """Whether two folders have the same files, byte for byte."""
    names = sorted(str(path.relative_to(one)) for path in one.rglob("*") if path.is_file())
    assert names == sorted(str(path.relative_to(other)) for path in other.rglob("*") if path.is_file())
    assert len(names) > 5
    return filecmp.cmpfiles(one, other, names, shallow=False) == (names, [], [])


def check_same(helpers, config, data, tmp_path, *words):
    done = helpers.run("tabulate", config, data, tmp_path / "spark", "--skip-validation", *words)
    assert done.returncode == 0, done.stderr
    assert helpers.run("tabulate", config, data, tmp_path / "duckdb", "--skip-validation").returncode == 0
    assert same(tmp_path / "spark", tmp_path / "duckdb")
    assert "WARN" not in done.stderr
    assert "Exception" not in done.stderr


def test_tabulate_the_small_dataset(helpers, where, tiny, config, small, tmp_path):
    check_same(helpers, config, small, tmp_path, *where, *tiny)


def test_tabulate_synthetic_households(helpers, where, config, households, tmp_path):
    """With all of Spark's optimizations enabled."""
    check_same(helpers, config, households, tmp_path, *where)


def test_release_over_connect(helpers, connect, tiny, us, small, tmp_path):
    """With the address in the environment, as platforms set it."""
    words = ("--engine", "spark", "--ledger", tmp_path / "ledger", "--new-ledger", *tiny)
    done = helpers.run("release", us, small, tmp_path / "out", *words, env={"SPARK_REMOTE": connect})
    assert done.returncode == 0, done.stderr
    assert helpers.run("check", tmp_path / "out").returncode == 0
    (entry,) = Ledger.open(tmp_path / "ledger").charges()
    assert entry.release_id == Release.open(tmp_path / "out").release_id
    assert entry.fingerprint


def test_losing_a_worker_during_a_release(helpers, cluster, us, households, tmp_path):
    """The run either finishes or fails without output; any release was charged exactly once."""
    words = ("--engine", "spark", "--spark-master", cluster.master, *helpers.settings(helpers.ON_CLUSTER))
    process = subprocess.Popen(
        helpers.command(
            "release", us, households, tmp_path / "out", "--ledger", tmp_path / "ledger", "--new-ledger", *words
        ),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | helpers.PYTHON,
    )  # fmt: skip
    printed, seen = [], threading.Event()

    def listen():
        for line in process.stderr:
            printed.append(line)
            if "counting" in line:
                seen.set()

    listener = threading.Thread(target=listen)
    listener.start()
    assert seen.wait(200), printed
    time.sleep(1)
    cluster.kill("worker1")
    code = process.wait(240)
    listener.join()
    process.stdout.close()
    process.stderr.close()
    entries = Ledger.open(tmp_path / "ledger").charges()
    if code == 0:
        release = Release.open(tmp_path / "out")
        assert [entry.release_id for entry in entries] == [release.release_id]
    else:
        assert code == 1
        assert not (tmp_path / "out").exists()
        assert "error: " in printed[-1]
    assert len(entries) <= 1
    assert [path for path in tmp_path.iterdir() if "partial" in path.name] == []


def quick(helpers, us, tmp_path, data, *words, env=None):
    """Run a release that must be refused within a minute, with one sentence, no charge and no files."""
    began = time.monotonic()
    done = helpers.run(
        "release", us, data, tmp_path / "out", "--ledger", tmp_path / "ledger", "--new-ledger", "--engine", "spark",
        *words, timeout=120, env=env,
    )  # fmt: skip
    assert time.monotonic() - began < 60
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("phsafe: error: ")
    assert list(tmp_path.iterdir()) == []
    return line


@pytest.mark.parametrize(
    ("master", "words"),
    [
        ("spark://127.0.0.1:9", "can't reach a Spark master at spark://127.0.0.1:9"),
        ("sc://127.0.0.1:9/;token=abc", "can't reach a Spark Connect server at sc://127.0.0.1:9;"),
        ("sc://no-such-host.invalid", "can't reach a Spark Connect server"),
        ("sprk://127.0.0.1:7077", "expected a Spark master such as"),
        ("spark://127.0.0.1", "expected a Spark master such as"),
        ("http://127.0.0.1:8080", "expected a Spark master such as"),
    ],
)
def test_unreachable_and_malformed_masters_are_refused(helpers, us, small, tmp_path, master, words):
    line = quick(helpers, us, tmp_path, small, "--spark-master", master)
    assert words in line
    assert "abc" not in line


@pytest.mark.parametrize("scheme", ["spark", "sc"])
def test_a_port_of_another_service_is_refused(helpers, us, small, tmp_path, scheme, monkeypatch):
    """Run the command with shorter timeouts."""
    code = "from phsafe.cli import main; from phsafe.readers import spark_session as s; s.START = s.ANSWER = 4; main()"
    monkeypatch.setattr(helpers, "command", lambda *words: [helpers.sys.executable, "-c", code, *map(str, words)])
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"{scheme}://127.0.0.1:{server.getsockname()[1]}"
        words = helpers.settings(helpers.SMALL) if scheme == "spark" else ()
        line = quick(helpers, us, tmp_path, small, "--spark-master", master, *words)
    assert re.search("did not accept .* within 4 seconds", line) or "can't reach" in line


@pytest.mark.parametrize("place", ["file:///no/such/folder", "hdfs://127.0.0.1:9/census"])
def test_unreachable_data_is_refused(helpers, connect, us, tmp_path, place):
    line = quick(helpers, us, tmp_path, place, "--spark-master", connect)
    assert place in line


def test_validate_prints_the_same_json(helpers, connect, tiny, us, small):
    """Standard output contains only JSON."""
    words = ("--json", "--engine", "spark", "--spark-master", connect, *tiny)
    done = helpers.run("validate", us, small, *words)
    assert done.returncode == 0
    assert json.loads(done.stdout) == json.loads(helpers.run("validate", us, small, "--json").stdout)


def test_settings_come_from_spark_defaults(helpers, us, small, tmp_path):
    """Without a master and settings on the command line, Spark's configuration folder applies."""
    conf = helpers.TINY | {"spark.master": "local[1]", "spark.app.name": "ours"}
    (tmp_path / "conf").mkdir()
    lines = [f"{key} {value}\n" for key, value in conf.items()]
    (tmp_path / "conf" / "spark-defaults.conf").write_text("".join(lines))
    code = (
        "from phsafe.engines import EngineOptions, started\n"
        "with started(EngineOptions('spark')) as options:\n"
        "    context = options.session.sparkContext\n"
        "    print(context.master, context.appName)\n"
    )
    env = os.environ | {"SPARK_CONF_DIR": str(tmp_path / "conf")}
    done = subprocess.run(
        [helpers.sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        env=env,
        timeout=200,
    )
    assert done.stdout.strip() == "local[1] ours", done.stderr
