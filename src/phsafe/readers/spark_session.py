"""Spark sessions: the caller's, a running one, Spark Connect, or a new one; retries, Java, no secrets in messages."""

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
from phsafe.readers.interfaces import EngineOptions
from phsafe.readers.spark_errors import quietly, within

#: Timeouts in seconds: for a port to answer, and then for the master or server to accept the connection.
ANSWER, START = 10.0, 30.0
NO_PYSPARK = (
    "the engine spark needs PySpark 4, which is not installed: pip install 'phsafe[spark]' "
    "(the engine duckdb doesn't need it)"
)
NO_JAVA = (
    "Spark needs Java 17 or newer, and none is on the PATH or in JAVA_HOME: install it, for example the Debian package "
    "openjdk-17-jre-headless (Spark Connect, --spark-master sc://HOST, and the engine duckdb don't need Java here)"
)
_MASTER = re.compile(
    r"local(-cluster)?(\[[0-9*, ]+\])?|yarn|spark://[^\s/,:]+:\d+(,[^\s/,:]+:\d+)*|k8s://\S+|sc://[^\s/:;]+(:\d+)?(/\S*)?"
)
#: Retry limits of Hadoop's clients; by default they would retry for a quarter of an hour.
_RETRY_LIMITS = {
    "spark.hadoop.ipc.client.connect.max.retries": "3",
    "spark.hadoop.ipc.client.connect.max.retries.on.timeouts": "1",
    "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": "30000",
}


@contextlib.contextmanager
def session_of(options: EngineOptions) -> Iterator[Any]:
    """Provide the session that the options ask for; stop it at the end if it was started here."""
    if options.session is not None:
        yield options.session
        return
    _check_pyspark()
    master = options.spark_master or os.environ.get("SPARK_REMOTE")
    if master is not None and _MASTER.fullmatch(master) is None:
        raise PHSafeError(
            "expected a Spark master such as local[4], spark://HOST:7077, yarn, k8s://https://HOST:443 "
            f"or a Spark Connect address such as sc://HOST:15002, got {redacted(master)}"
        )
    with quietly():
        running = _running()
    if running is not None and master is None:
        yield running
        return
    if running is not None:
        raise PHSafeError("a Spark session is already running in this process; pass it as session=, or name no master")
    with quietly():
        session = _connect(master, options) if master and master.startswith("sc://") else _classic(options)
    try:
        yield session
    finally:
        with contextlib.suppress(Exception), quietly():
            session.stop()


@contextlib.contextmanager
def pinned(session: Any, settings: Mapping[str, str]) -> Iterator[None]:  # noqa: ANN401
    """Change settings of a session, and restore them at the end."""
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


def redacted(master: str) -> str:
    """An address without possible secrets: users, tokens and other parameters.

    >>> redacted("sc://me:pw@host:15002/;token=abc")
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
    """The session that runs in this process, if any: of spark-submit, a notebook or a platform."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    return SparkSession.getActiveSession()


def _connect(master: str, options: EngineOptions) -> Any:  # noqa: ANN401
    try:
        import grpc  # noqa: PLC0415
        from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415
        from pyspark.sql.connect.session import SparkSession  # noqa: PLC0415
    except ImportError:
        raise PHSafeError(NO_PYSPARK) from None
    sentence = f"can't reach a Spark Connect server at {redacted(master)}; is one running there?"
    try:
        # PySpark itself would retry for ten minutes, and could not be interrupted.
        with DefaultChannelBuilder(master).toChannel() as channel:
            grpc.channel_ready_future(channel).result(timeout=ANSWER)
        session, _ = within(
            START, lambda: _with_version(SparkSession.builder.remote(master).create()),
            f"the Spark Connect server at {redacted(master)} did not accept the connection",
        )  # fmt: skip
    except PHSafeError:
        raise
    except Exception:
        raise PHSafeError(sentence) from None
    for key, value in options.spark_conf.items():
        _set(session, key, value)
    return session


def _with_version(session: Any) -> tuple[Any, str]:  # noqa: ANN401
    """The session and the server's version, which forces the server to answer."""
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
            # Local executors run the same Python as this program, with all its packages.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= {key: value for key, value in _RETRY_LIMITS.items() if not given.contains(key)}
        if not given.contains("spark.app.name"):
            settings["spark.app.name"] = "phsafe"
        builder = SparkSession.builder.config(map=settings)
        sentence = f"the Spark master {redacted(master)} did not accept this application"
        if master.startswith("spark://"):
            return within(START, builder.getOrCreate, sentence)
        return builder.getOrCreate()
    except PHSafeError:
        _kill()
        raise
    except Exception as error:
        _kill()
        raise PHSafeError(
            f"can't start Spark at {redacted(options.spark_master or 'the default master')} ({type(error).__name__}): "
            "check the master, the settings, and that Java is 17 or newer; PHSAFE_DEBUG=1 shows Spark's own output"
        ) from None


def _launch(conf: Any) -> None:  # noqa: ANN401
    """Start Java, unless it runs already. Its output is discarded, because it is long and may quote records."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    silent = {} if os.environ.get("PHSAFE_DEBUG") == "1" else {
        "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
    }  # fmt: skip
    if SparkContext._gateway is None:
        SparkContext._ensure_initialized(gateway=launch_gateway(conf, silent), conf=conf)


def _kill() -> None:
    """Kill a Java process that we started and that is stuck, so that the next attempt starts a new one."""
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
    """Refuse a standalone master that doesn't answer. Spark itself would retry for a minute or more."""
    if not master.startswith("spark://"):
        return
    problem = None
    for host in master.removeprefix("spark://").split(","):
        try:
            return _connect_to(host, 7077, f"can't reach a Spark master at {redacted(master)}; is one running there?")
        except PHSafeError as error:
            problem = error
    assert problem is not None
    raise problem


def _connect_to(host: str, default: int, sentence: str) -> None:
    name, _, port = host.partition(":")
    try:
        socket.create_connection((name, int(port or default)), timeout=ANSWER).close()
    except (OSError, ValueError, OverflowError):
        raise PHSafeError(sentence) from None
