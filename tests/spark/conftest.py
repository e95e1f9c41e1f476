"""A Spark session for the whole test run, and real clusters started from the pip package."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Small and quick to start, for a machine with two cores.
JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SMALL = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JVM,
    "spark.executor.extraJavaOptions": JVM,
    "spark.sql.shuffle.partitions": "2",
}
#: Without this, executors of a cluster run the python3 on their PATH, which may lack NumPy and PyArrow.
PYTHON = {"PYSPARK_PYTHON": sys.executable}
#: For a few hundred rows, compiling queries takes longer than running them.
TINY = SMALL | {"spark.sql.codegen.wholeStage": "false", "spark.sql.adaptive.enabled": "false"}


def pytest_configure(config):
    config.addinivalue_line("markers", "xdist_group(name): tests that run in the same worker of a parallel run")


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.needs("java"))
            # PySpark 4.0 leaves sockets to the garbage collector, which may close them during any test.
            item.add_marker(pytest.mark.filterwarnings("ignore:Exception ignored in. <socket"))
            # All in one worker of a parallel run, so that they share a session.
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark_options():
    """Options with a running session in this process."""
    from phsafe.engines import EngineOptions, started

    with started(EngineOptions("spark", spark_master="local[2]", spark_conf=TINY)) as options:
        yield options


@pytest.fixture(scope="session")
def spark(spark_options):
    """The Spark engine."""
    from phsafe.engines import open_engine

    with open_engine(spark_options) as engine:
        yield engine


@pytest.fixture(scope="session")
def duck():
    """DuckDB, to compare with."""
    from phsafe.engines import EngineOptions, open_engine

    with open_engine(EngineOptions(threads=1)) as engine:
        yield engine


@pytest.fixture(params=["duckdb", "spark"])
def engine(request):
    """Each engine in turn."""
    return request.getfixturevalue("duck" if request.param == "duckdb" else "spark")


@pytest.fixture(scope="session")
def helpers():
    """This module, for its functions that start processes."""
    return sys.modules[__name__]


@pytest.fixture(scope="session")
def oracle():
    """The independent implementation of the tabulations."""
    return load(ROOT / "tests" / "counting" / "oracle.py")


def load(path: Path):
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def households(tmp_path_factory) -> Path:
    """Synthetic households in three states, some above every threshold: 20,000, or PHSAFE_SPARK_HOUSEHOLDS."""
    from phsafe.synthetic import synth

    out = tmp_path_factory.mktemp("synth") / "data"
    synth(out, int(os.environ.get("PHSAFE_SPARK_HOUSEHOLDS", "20000")), ("11", "44", "56"), 7, "parquet")
    return out


def settings(conf: dict[str, str]) -> list[str]:
    return [word for key, value in conf.items() for word in ("--spark-conf", f"{key}={value}")]


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "phsafe", *map(str, words)]


def run(*words: object, timeout: float = 240, env: dict[str, str] | None = None):
    """Run the phsafe command in its own process."""
    return subprocess.run(
        command(*words),
        check=False,
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | PYTHON | (env or {}),
    )


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@dataclass
class Cluster:
    """A standalone cluster on the loopback interface: a master and two workers, each in its own process."""

    folder: Path
    master: str = ""
    processes: dict[str, subprocess.Popen] = field(default_factory=dict)

    def start(self) -> None:
        port, web = free_port(), free_port()
        self.master = f"spark://127.0.0.1:{port}"
        host = ("--host", "127.0.0.1", "--webui-port")
        self.launch("master", "deploy.master.Master", *host, web, "--port", port)
        wait_for(port)
        for name in ("worker1", "worker2"):
            resources = ("--work-dir", self.folder / name, "--cores", 1, "--memory", "1g")
            self.launch(name, "deploy.worker.Worker", *host, 0, *resources, self.master)

    def launch(
        self, name: str, class_name: str, *words: object, memory: str = "256m", python: str = sys.executable
    ) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        env = os.environ | {
            "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": memory,
            "SPARK_DAEMON_JAVA_OPTS": JVM, "SPARK_NO_DAEMONIZE": "1", "PYSPARK_PYTHON": python,
        }  # fmt: skip
        with (self.folder / f"{name}.log").open("w") as log:
            self.processes[name] = subprocess.Popen(
                [home / "bin" / "spark-class", f"org.apache.spark.{class_name}", *map(str, words)],
                stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True,
            )  # fmt: skip

    def kill(self, name: str) -> None:
        """Kill a process and its children without warning, as when a machine is switched off."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for name in list(self.processes):
            self.kill(name)


def wait_for(port: int, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.2)
    raise TimeoutError(f"nothing on port {port} after {seconds} seconds")


#: Settings for a driver of the small cluster; executors must fit in the workers.
ON_CLUSTER = SMALL | {"spark.executor.memory": "600m", "spark.cores.max": "2"}


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    started = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


@contextlib.contextmanager
def connect_server(folder: Path, python: str = sys.executable):
    """Start a Spark Connect server whose executors run the given Python; yields its address."""
    started, port = Cluster(folder), free_port()
    conf = SMALL | {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.warehouse.dir": str(started.folder / "warehouse"),
    }
    words = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    service = "sql.connect.service.SparkConnectServer"
    try:
        started.launch(
            "server", "deploy.SparkSubmit", "--master", "local[2]", "--class", f"org.apache.spark.{service}",
            *words, "spark-internal", memory="1g", python=python,
        )  # fmt: skip
        wait_for(port)
        yield f"sc://127.0.0.1:{port}"
    finally:
        started.stop()


@pytest.fixture(scope="session")
def connect(tmp_path_factory):
    """The address of a Spark Connect server."""
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address
