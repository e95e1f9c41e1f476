"""Translation of Spark errors, whose own texts may quote records and run to pages, and timeouts for calls of Spark."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from phsafe.errors import DataError, PHSafeError

T = TypeVar("T")
_Signs = tuple[tuple[tuple[str, ...], str], ...]
#: Where PySpark logs failed queries.
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
NOT_FOUND = "expected files that every Spark worker can see, got none"
#: Signs of a problem with a file → the message. Searched in this order, in lower case.
_FILES: _Signs = (
    (("path_not_found", "path does not exist", "filenotfoundexception"),
     NOT_FOUND),
    (("accesscontrolexception", "accessdenied", "permission denied", "forbidden", "status code: 403"),
     "Spark has no permission to read it; grant it to the account that the cluster runs under"),
    (("unsupportedfilesystemexception", "no filesystem for scheme", "filesystem not found", "nosuchfilesystem"),
     "Spark doesn't support this file system; add its package with --spark-conf spark.jars.packages=…"),
    (("unknownhostexception", "connectexception", "connection refused", "sockettimeoutexception",
      "connecttimeoutexception", "noroutetohost"),
     "Spark can't reach that file system; check the address and the network"),
    (("cannot_merge", "failed merging schema"),
     "expected the same columns and types in every Parquet file, got different ones"),
    (("is not a parquet file", "cannot_read_file_footer", "could not read footer", "unable_to_infer_schema"),
     "expected Parquet files, but they can't be read as Parquet"),
    (("invalid utf8",), "expected text in UTF-8, got other bytes"),
)  # fmt: skip
#: Signs of a problem with Python on the executors.
_PYTHON: _Signs = (
    (("no module named 'numpy'", "no module named 'pyarrow'", "package_not_installed", "unsupported_package_version"),
     "a Spark executor lacks NumPy or PyArrow; install both for the Python that executors run "
     "(set by PYSPARK_PYTHON)"),
    (("python_version_mismatch",),
     "Spark's executors run a different Python version from this program; set PYSPARK_PYTHON to the same version"),
    (("cannot run program", "error from python worker"),
     "Spark's executors can't start Python; install it there, with NumPy and PyArrow, or correct PYSPARK_PYTHON"),
    (("python worker exited unexpectedly",),
     "a Python process of a Spark executor died, perhaps for lack of memory; "
     "raise spark.executor.memoryOverhead or spark.sql.shuffle.partitions"),
)  # fmt: skip
#: Signs of a problem with the cluster.
_CLUSTER: _Signs = (
    (("outofmemoryerror", "unable_to_acquire_memory", "memory limits"),
     "Spark ran out of memory; raise spark.executor.memory or spark.sql.shuffle.partitions"),
    (("no space left",), "Spark ran out of disk space; point spark.local.dir to a larger disk"),
    (("exceeds the limit", "spark.driver.maxresultsize"),
     "Spark's driver can't hold the result; raise spark.driver.maxResultSize"),
    (("sparkcontext was shut down", "stopped sparkcontext", "statuscode.unavailable", "connection reset",
      "master removed our application", "all masters are unresponsive", "answer from java side is empty",
      "error while receiving", "session_closed", "handle is invalid", "connection refused"),
     "the connection to the Spark cluster was lost while counting"),
)  # fmt: skip


@contextlib.contextmanager
def translated(addresses: Sequence[str]) -> Iterator[None]:
    """Translate Spark errors into one sentence about the file concerned, one of `addresses`, or about the cluster."""
    import grpc  # noqa: PLC0415  (both come with PySpark)
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JError, grpc.RpcError, ConnectionError, EOFError) as error:
        raise _translation(error, addresses) from None


def _translation(error: Exception, addresses: Sequence[str]) -> PHSafeError:
    text = str(error)
    low = text.lower()
    named = [address for address in addresses if address.partition("://")[2].lstrip("/") in text]
    hosts = [address for address in addresses if not address.startswith("file:") and _host(address) in text]
    only = addresses[0] if len(set(addresses)) == 1 else "the input"
    subject = max(named or hosts, key=len, default=only)
    for signs, sentence in _PYTHON:
        if any(sign in low for sign in signs):
            return PHSafeError(sentence)
    for signs, sentence in _FILES if named or hosts or "file" in low else ():
        if any(sign in low for sign in signs):
            return DataError(f"{subject}: {sentence}")
    for signs, sentence in _CLUSTER:
        if any(sign in low for sign in signs):
            return PHSafeError(sentence)
    return DataError(f"{subject}: Spark can't read or count it ({type(error).__name__})")


def _host(address: str) -> str:
    """The host or bucket in an address."""
    return re.split("[/:]", address.partition("://")[2], maxsplit=1)[0] or address


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Silence PySpark, whose logged errors may quote records and whose warnings concern package versions."""
    loggers = [] if os.environ.get("PHSAFE_DEBUG") == "1" else [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


def within(seconds: float, function: Callable[[], T], sentence: str) -> T:
    """Call a function with a timeout, because Spark itself would wait for many minutes.

    Args:
        seconds: The timeout.
        function: The function, which keeps running in a thread if it doesn't return in time.
        sentence: The error message, to which "within … seconds" is added.

    """
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(function())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if failed:
        raise failed[0]
    if not done:
        raise PHSafeError(f"{sentence} within {seconds:.0f} seconds")
    return done[0]
