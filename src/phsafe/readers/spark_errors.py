"""Sentences of ours for Spark's errors, whose own texts may quote records, and run to pages."""

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
#: Signs of a problem with a file → what to say about it. Searched in this order, in lower case.
_FILES: _Signs = (
    (("path_not_found", "path does not exist", "filenotfoundexception"),
     "expected files there that Spark can see from every worker, got nothing"),
    (("accesscontrolexception", "accessdenied", "permission denied", "forbidden", "status code: 403"),
     "Spark has no permission to read it; grant that to the account the cluster runs under"),
    (("unsupportedfilesystemexception", "no filesystem for scheme", "filesystem not found", "nosuchfilesystem"),
     "Spark has no file system of that kind; add its package with --spark-conf spark.jars.packages=…"),
    (("unknownhostexception", "connectexception", "connection refused", "sockettimeoutexception",
      "connecttimeoutexception", "noroutetohost"),
     "Spark can't reach that file system; check the address and the network"),
    (("cannot_merge", "failed merging schema"),
     "expected the same columns and types in every Parquet file, got others"),
    (("is not a parquet file", "cannot_read_file_footer", "could not read footer", "unable_to_infer_schema"),
     "expected Parquet files, but they can't be read as such"),
    (("invalid utf8",), "expected texts in UTF-8, got other bytes"),
)  # fmt: skip
#: Signs of a problem with Python on the executors.
_PYTHON: _Signs = (
    (("no module named 'numpy'", "no module named 'pyarrow'", "package_not_installed", "unsupported_package_version"),
     "a Spark executor lacks NumPy or PyArrow; install both for the Python that executors run "
     "(PYSPARK_PYTHON names it)"),
    (("python_version_mismatch",),
     "Spark's executors run another version of Python than this program; name one with PYSPARK_PYTHON"),
    (("cannot run program", "error from python worker"),
     "Spark's executors can't start Python; install it there, with NumPy and PyArrow, or name it with PYSPARK_PYTHON"),
    (("python worker exited unexpectedly",),
     "a Python process of Spark's executors ended in the middle, perhaps for lack of memory; "
     "raise spark.executor.memoryOverhead or spark.sql.shuffle.partitions"),
)  # fmt: skip
#: Signs of a problem with the cluster.
_CLUSTER: _Signs = (
    (("outofmemoryerror", "unable_to_acquire_memory", "memory limits"),
     "Spark ran out of memory; raise spark.executor.memory or spark.sql.shuffle.partitions"),
    (("no space left",), "Spark ran out of disk; give spark.local.dir more room"),
    (("exceeds the limit", "spark.driver.maxresultsize"),
     "Spark's driver can't hold the result; raise spark.driver.maxResultSize"),
    (("sparkcontext was shut down", "stopped sparkcontext", "statuscode.unavailable", "connection reset",
      "master removed our application", "all masters are unresponsive", "answer from java side is empty",
      "error while receiving", "session_closed", "handle is invalid", "connection refused"),
     "the Spark cluster went away while it was counting"),
)  # fmt: skip


@contextlib.contextmanager
def in_words(places: Sequence[str]) -> Iterator[None]:
    """Turn whatever Spark raises into one sentence about the file concerned, one of `places`, or about the cluster."""
    import grpc  # noqa: PLC0415  (both come with PySpark)
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (PySparkException, Py4JError, grpc.RpcError, ConnectionError, EOFError) as error:
        raise _sentence(error, places) from None


def _sentence(error: Exception, places: Sequence[str]) -> PHSafeError:
    text = str(error)
    low = text.lower()
    named = [place for place in places if place.partition("://")[2].lstrip("/") in text]
    hosts = [place for place in places if not place.startswith("file:") and _host(place) in text]
    only = places[0] if len(set(places)) == 1 else "the input"
    place = max(named or hosts, key=len, default=only)
    for signs, sentence in _PYTHON:
        if any(sign in low for sign in signs):
            return PHSafeError(sentence)
    for signs, sentence in _FILES if named or hosts or "file" in low else ():
        if any(sign in low for sign in signs):
            return DataError(f"{place}: {sentence}")
    for signs, sentence in _CLUSTER:
        if any(sign in low for sign in signs):
            return PHSafeError(sentence)
    return DataError(f"{place}: can't be read or counted by Spark ({type(error).__name__})")


def _host(place: str) -> str:
    """The host or bucket in an address."""
    return re.split("[/:]", place.partition("://")[2], maxsplit=1)[0] or place


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keep PySpark from writing: it logs errors with all that they quote, and warns of newer packages than it knows."""
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
    """A function's result, if it comes in time; Spark itself would wait for many minutes."""
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
