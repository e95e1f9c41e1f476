"""Getting a Spark session: one given, one that runs in this process, Spark Connect, or a new classic one."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from phsafe.errors import PHSafeError
from phsafe.readers.options import EngineOptions
from phsafe.readers.spark_errors import quietly, within

#: Seconds for a port to answer, and for a master or server to take us on after it did.
ANSWER, START = 10.0, 30.0
NO_PYSPARK = (
    "the engine spark needs PySpark 4, which is not installed: pip install 'phsafe[spark]' "
    "(the engine duckdb needs nothing more)"
)
NO_JAVA = (
    "Spark needs Java 17 or newer, and none is on the PATH or in JAVA_HOME: install one, such as the Debian package "
    "openjdk-17-jre-headless (a Spark Connect server, --spark-master sc://HOST, and the engine duckdb need none here)"
)
_MASTER = re.compile(
    r"local(-cluster)?(\[[0-9*, ]+\])?|yarn|spark://[^\s/,:]+:\d+(,[^\s/,:]+:\d+)*|k8s://\S+|sc://[^\s/:;]+(:\d+)?(/\S*)?"
)
#: How long Hadoop's clients try; as they come, they try for a quarter of an hour.
_PATIENCE = {
    "spark.hadoop.ipc.client.connect.max.retries": "3",
    "spark.hadoop.ipc.client.connect.max.retries.on.timeouts": "1",
    "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": "30000",
}


@contextlib.contextmanager
def session_of(options: EngineOptions) -> Iterator[Any]:
    """A session as the options ask for it, stopped at the end if it was made here."""
    if options.session is not None:
        yield options.session
        return
    _check_pyspark()
    master = options.spark_master or os.environ.get("SPARK_REMOTE")
    if master is not None and _MASTER.fullmatch(master) is None:
        raise PHSafeError(
            "expected a Spark master such as local[4], spark://HOST:7077, yarn, k8s://https://HOST:443 "
            f"or a Spark Connect address such as sc://HOST:15002, got {shown(master)}"
        )
    with quietly():
        running = _running()
    if running is not None and master is None:
        yield running
        return
    if running is not None:
        raise PHSafeError("a Spark session runs in this process already; give it as session= or name no master")
    with quietly():
        session = _connect(master, options) if master and master.startswith("sc://") else _classic(options)
    try:
        yield session
    finally:
        with contextlib.suppress(Exception), quietly():
            session.stop()


@contextlib.contextmanager
def pinned(session: Any, settings: Mapping[str, str]) -> Iterator[None]:  # noqa: ANN401
    """Hold settings of a session, and restore them at the end."""
    with quietly():
        before = {key: session.conf.get(key, None) for key in settings}
        for key, value in settings.items():
            if before[key] != value:
                _set(session, key, value)
    try:
        yield
    finally:
        with contextlib.suppress(Exception), quietly():
            for key, was in before.items():
                if was is None:
                    session.conf.unset(key)
                elif session.conf.get(key) != was:
                    session.conf.set(key, was)


def shown(master: str) -> str:
    """An address without what may be a secret: users, tokens and other parameters.

    >>> shown("sc://me:pw@host:15002/;token=abc")
    'sc://host:15002'
    """
    scheme, separator, rest = master.partition(";")[0].rpartition("://")
    return f"{scheme}{separator}{rest.partition('/')[0].rpartition('@')[2]}"


def _set(session: Any, key: str, value: str) -> None:  # noqa: ANN401
    try:
        session.conf.set(key, value)
    except Exception:
        raise PHSafeError(f"this Spark session does not allow the setting {key}={value}") from None


def _check_pyspark() -> None:
    try:
        with quietly():
            import pyspark  # noqa: PLC0415
    except ImportError:
        raise PHSafeError(NO_PYSPARK) from None
    if int(pyspark.__version__.split(".")[0]) < 4:
        raise PHSafeError(f"{NO_PYSPARK}; got {pyspark.__version__}")


def _running() -> Any:  # noqa: ANN401
    """The session of whoever runs us: spark-submit's shell, a notebook, a job on a platform."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return SparkSession.getActiveSession()


def _connect(master: str, options: EngineOptions) -> Any:  # noqa: ANN401
    try:
        import grpc  # noqa: PLC0415
        from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415
        from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415
    except ImportError:
        raise PHSafeError(NO_PYSPARK) from None
    sentence = f"can't reach a Spark Connect server at {shown(master)}; is one running there?"
    try:
        # PySpark itself would try for ten minutes, and could not be stopped then.
        with DefaultChannelBuilder(master).toChannel() as channel:
            grpc.channel_ready_future(channel).result(timeout=ANSWER)
        session, _ = within(
            START, lambda: _greeted(SparkSession.builder.remote(master).create()),
            f"the Spark Connect server at {shown(master)} did not take this program on",
        )  # fmt: skip
    except PHSafeError:
        raise
    except Exception:
        raise PHSafeError(sentence) from None
    for key, value in options.spark_conf.items():
        _set(session, key, value)
    return session


def _greeted(session: Any) -> tuple[Any, str]:  # noqa: ANN401
    """A session whose server has answered."""
    return session, session.version


def _classic(options: EngineOptions) -> Any:  # noqa: ANN401
    if "PYSPARK_GATEWAY_PORT" not in os.environ and _java() is None:
        raise PHSafeError(NO_JAVA)
    if options.spark_master:
        _check_master(options.spark_master)
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    settings = dict(options.spark_conf) | ({"spark.master": options.spark_master} if options.spark_master else {})
    try:
        _launch(SparkConf(loadDefaults=False).setAll(list(settings.items())))
        given = SparkContext._jvm.SparkConf()
        master = given.get("spark.master", "local[*]")
        if not options.spark_master:
            _check_master(master)
        if master.startswith("local"):
            # Executors of this machine run the Python that runs this program, with all its packages.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= {key: value for key, value in _PATIENCE.items() if not given.contains(key)}
        if not given.contains("spark.app.name"):
            settings["spark.app.name"] = "phsafe"
        builder = SparkSession.builder.config(map=settings)
        sentence = f"the Spark master {shown(master)} did not take this program on"
        if master.startswith("spark://"):
            return within(START, builder.getOrCreate, sentence)
        return builder.getOrCreate()
    except PHSafeError:
        _kill()
        raise
    except Exception as error:
        _kill()
        raise PHSafeError(
            f"can't start Spark at {shown(options.spark_master or 'the default master')} ({type(error).__name__}): "
            "check the master, the settings, and that Java is 17 or newer; PHSAFE_DEBUG=1 shows Spark's own words"
        ) from None


def _launch(conf: Any) -> None:  # noqa: ANN401
    """Start Java, unless it runs. What it says goes nowhere: it runs to pages, and may quote records."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    silent = {} if os.environ.get("PHSAFE_DEBUG") == "1" else {
        "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
    }  # fmt: skip
    if SparkContext._gateway is None:
        SparkContext._ensure_initialized(gateway=launch_gateway(conf, silent), conf=conf)


def _kill() -> None:
    """End a Java of ours that is stuck, so that the next attempt starts a new one."""
    from pyspark import SparkContext  # noqa: PLC0415

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()
        process.wait()
        SparkContext._gateway = SparkContext._jvm = None


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    inside = Path(home) / "bin" / "java" if home else None
    return str(inside) if inside and inside.exists() else shutil.which("java")


def _check_master(master: str) -> None:
    """Refuse at once a standalone master that nobody answers for: Spark would try for a minute or more."""
    if not master.startswith("spark://"):
        return
    problem = None
    for host in master.removeprefix("spark://").split(","):
        try:
            return _answers(host, 7077, f"can't reach a Spark master at {shown(master)}; is one running there?")
        except PHSafeError as error:
            problem = error
    assert problem is not None
    raise problem


def _answers(host: str, default: int, sentence: str) -> None:
    name, _, port = host.partition(":")
    try:
        socket.create_connection((name, int(port or default)), timeout=ANSWER).close()
    except (OSError, ValueError, OverflowError):
        raise PHSafeError(sentence) from None
