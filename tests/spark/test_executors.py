"""Executors run code shipped by value with only NumPy and PyArrow; missing packages are reported."""

import json
import os
import pickle
import subprocess
import sys
from collections import Counter

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from phsafe import tabulate
from phsafe.configs.config import Config
from phsafe.counting.plan import Plan
from phsafe.engines import spark_engine
from phsafe.engines.spark_tasks import SHUFFLED_ARROW, CountTask, EncodeTask
from phsafe.errors import PHSafeError
from phsafe.pipeline.scan import scan_tables
from phsafe.privacy.ledger import Ledger
from phsafe.readers import load
from phsafe.readers import spark_tables as spark_reader
from phsafe.synthetic import synth

pytestmark = pytest.mark.needs("java")
LACKS = (
    "phsafe: error: a Spark executor lacks NumPy or PyArrow; "
    "install both for the Python that executors run (set by PYSPARK_PYTHON)"
)
#: Code that makes imports fail unless the expression `allowed` is true.
HIDE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if not ({allowed}):
            raise ModuleNotFoundError(f"No module named {{root!r}}", name=root)

sys.meta_path.insert(0, Hidden())
"""
BARE = "root in sys.stdlib_module_names or root[0] == '_' or root in ('numpy', 'pyarrow', 'pyspark', 'py4j')"


@pytest.fixture
def python(tmp_path_factory):
    """Create a Python executable that is this one, but runs some code at startup."""

    def make(code):
        folder = tmp_path_factory.mktemp("python")
        (folder / "sitecustomize.py").write_text(code)
        program = folder / "python"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={folder}:$PYTHONPATH exec {sys.executable} "$@"\n')
        program.chmod(0o755)
        return str(program)

    return make


COUNT = """
import sys
from phsafe import tabulate
from phsafe.engines import EngineOptions, started

def importable(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True

if __name__ == "__main__":
    us, data, master, *words = sys.argv[1:]
    conf = dict(word.split("=", 1) for word in words)
    with started(EngineOptions("spark", spark_master=master, spark_conf=conf)) as options:
        names = ["numpy", "phsafe", "pandas", "polars"]
        print(options.session.sparkContext.parallelize(names).map(importable).collect())
        frame = tabulate(us, data, options=options)
    print(frame.equals(tabulate(us, data)))
"""


def count(helpers, us, small, *words, **env):
    done = subprocess.run(
        [sys.executable, "-c", COUNT, us, small, *words], check=False, capture_output=True, text=True, timeout=240,
        env={key: value for key, value in (os.environ | env).items() if value is not None},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def conf(settings):
    return [f"{key}={value}" for key, value in settings.items()]


def test_executors_without_this_package(helpers, us, small, python):
    bare = python(HIDE.format(allowed=BARE))
    words = "local[2]", *conf(helpers.TINY)
    assert count(helpers, us, small, *words, PYSPARK_PYTHON=bare) == ["[True, False, False, False]", "True"]


def test_executors_of_a_cluster_without_this_package(helpers, cluster, us, small, python):
    bare = python(HIDE.format(allowed=BARE))
    words = cluster.master, *conf(helpers.TINY | helpers.ON_CLUSTER)
    assert count(helpers, us, small, *words, PYSPARK_PYTHON=bare) == ["[True, False, False, False]", "True"]


def test_local_executors_run_the_same_python(helpers, us, small):
    """Unless PYSPARK_PYTHON is set; another Python may not exist or may lack the packages."""
    words = "local[1]", *conf(helpers.TINY)
    assert count(helpers, us, small, *words, PYSPARK_PYTHON=None) == ["[True, True, True, True]", "True"]


def refused(helpers, us, small, tmp_path, *words, **env):
    """Run a release that must be refused with one sentence, no charge and no output folder."""
    if not (tmp_path / "ledger").exists():
        Ledger.create(tmp_path / "ledger", 2)
    paths = "release", us, small, tmp_path / "out", "--ledger", tmp_path / "ledger"
    done = helpers.run(*paths, "--engine", "spark", *words, env=env)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert Ledger.open(tmp_path / "ledger").charges() == ()
    assert not (tmp_path / "out").exists()
    assert [path for path in tmp_path.iterdir() if "partial" in path.name] == []
    (line,) = [line for line in done.stderr.splitlines() if line != "release: counting"]
    return line


@pytest.mark.parametrize("package", ["numpy", "pyarrow"])
def test_an_executor_lacks_a_package(helpers, us, small, tmp_path, python, package):
    without = python(HIDE.format(allowed=f"root != {package!r}"))
    words = "--spark-master", "local[2]", *helpers.settings(helpers.TINY)
    assert refused(helpers, us, small, tmp_path, *words, PYSPARK_PYTHON=without) == LACKS


def test_an_executor_of_a_cluster_lacks_a_package(helpers, cluster, us, small, tmp_path, python):
    without = python(HIDE.format(allowed="root != 'numpy'"))
    words = "--spark-master", cluster.master, *helpers.settings(helpers.TINY | helpers.ON_CLUSTER)
    assert refused(helpers, us, small, tmp_path, *words, PYSPARK_PYTHON=without) == LACKS


def test_an_executor_behind_spark_connect_lacks_a_package(helpers, us, small, tmp_path, tmp_path_factory, python):
    without = python(HIDE.format(allowed="root != 'numpy'"))
    with helpers.connect_server(tmp_path_factory.mktemp("connect"), without) as address:
        assert refused(helpers, us, small, tmp_path, "--spark-master", address) == LACKS


def test_an_executor_cannot_start_python(helpers, us, small, tmp_path):
    words = "--spark-master", "local[2]", *helpers.settings(helpers.TINY)
    line = refused(helpers, us, small, tmp_path, *words, PYSPARK_PYTHON="/no/such/python")
    assert line.startswith("phsafe: error: Spark's executors can't start Python; install it there")


def test_an_executor_runs_another_version_of_python(helpers, us, small, tmp_path, python):
    other = python(
        "import collections, sys\n"
        "Version = collections.namedtuple('Version', 'major minor micro releaselevel serial')\n"
        "sys.version_info = Version(3, sys.version_info.minor + 1, 0, 'final', 0)\n"
    )
    words = "--spark-master", "local[2]", *helpers.settings(helpers.TINY)
    line = refused(helpers, us, small, tmp_path, *words, PYSPARK_PYTHON=other)
    assert line.startswith("phsafe: error: Spark's executors run a different Python version")


def test_an_executor_s_python_fails_to_start(helpers, us, small, tmp_path, python):
    broken = python(HIDE.format(allowed="root != 'pyspark'"))
    words = "--spark-master", "local[2]", *helpers.settings(helpers.TINY)
    line = refused(helpers, us, small, tmp_path, *words, PYSPARK_PYTHON=broken)
    assert line.startswith("phsafe: error: Spark's executors can't start Python; install it there")


def test_an_executor_s_python_dies(helpers, us, small, tmp_path, python):
    """As when the system kills a process for lack of memory."""
    dying = python("import os, sys\nsys.setprofile(lambda f, e, a: f.f_code.co_name != '_count' or os._exit(9))\n")
    words = "--spark-master", "local[2]", *helpers.settings(helpers.TINY)
    line = refused(helpers, us, small, tmp_path, *words, PYSPARK_PYTHON=dying)
    assert line.startswith("phsafe: error: a Python process of a Spark executor died")


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory):
    """Synthetic households in every state, one Parquet file per state."""
    folder = tmp_path_factory.mktemp("everywhere")
    synth(folder / "parquet", 5_000, seed=3)
    synth(folder / "csv", 5_000, seed=3, format="csv")
    return folder


@pytest.mark.parametrize(("form", "most"), [("parquet", 10), ("csv", 12)])
def test_the_number_of_jobs_and_the_event_log_are_small(helpers, us, everywhere, tmp_path, form, most, record_property):
    """However many files there are."""
    (tmp_path / "log").mkdir()
    logged = helpers.SMALL | {
        "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false", "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": (tmp_path / "log").as_uri(),
    }  # fmt: skip
    words = "--engine", "spark", "--spark-master", "local[2]", *helpers.settings(logged)
    done = helpers.run("tabulate", us, everywhere / form, tmp_path / "out", *words)
    assert done.returncode == 0, done.stderr
    (log,) = (tmp_path / "log").iterdir()
    with log.open() as lines:
        jobs = Counter(json.loads(line)["Event"] for line in lines)["SparkListenerJobStart"]
    record_property("jobs", jobs)
    record_property("event log bytes", log.stat().st_size)
    assert 0 < jobs <= most
    assert 0 < log.stat().st_size < 2_000_000


@pytest.fixture(scope="module")
def kernel(us):
    return Plan(Config.load(us)).kernel()


@pytest.fixture(scope="module")
def shuffled(kernel, small_frames):
    """The rows of the small dataset as they are shuffled."""
    batches = [
        batch
        for number, (name, frame) in enumerate(small_frames.items())
        for batch in EncodeTask(kernel, name, number)(iter(frame.to_arrow().to_batches()))
    ]
    return pa.Table.from_batches(batches, SHUFFLED_ARROW).combine_chunks()


def partition(kernel, rows):
    """The result of counting some rows as a partition."""
    (batch,) = CountTask(kernel, ("persons", "units", "geo"))(iter(rows.to_batches()))
    return batch.to_pylist()[0]


def parts(shuffled, number):
    """Split the rows into partitions by bucket; the results of encoding go to the last."""
    buckets = shuffled["bucket"].to_numpy()
    return [shuffled.filter(pa.array(buckets % number == i)) for i in range(number)]


def plain(counted):
    """All results in a form that can be compared."""
    tallies = {name: [part.tolist() for part in tally.items()] for name, tally in counted.tallies.items()}
    return counted.rows, counted.households, counted.violations, tallies, counted.beyond.tolist()


@pytest.mark.parametrize("number", [1, 2, 7])
def test_partitions_add_up(kernel, shuffled, small_frames, duck, number):
    found = spark_engine._total(kernel, [partition(kernel, rows) for rows in parts(shuffled, number)])
    expected = duck.scan(load(small_frames, duck).tables, kernel, lambda done: None)
    assert plain(found) == plain(expected)
    assert found.households > 100


def test_rows_of_a_key_in_several_partitions_are_refused(kernel, shuffled):
    half = shuffled.num_rows // 2
    found = [partition(kernel, rows) for rows in (shuffled[:half], shuffled[half:])]
    with pytest.raises(PHSafeError, match="rows of one household key in several partitions"):
        spark_engine._total(kernel, found)
    one = {"buckets": pickle.dumps(np.array([5, 9])), "counted": pickle.dumps(kernel.empty())}
    other = one | {"buckets": pickle.dumps(np.array([7, 9]))}
    with pytest.raises(PHSafeError, match="rows of one household key in several partitions"):
        spark_engine._total(kernel, [one, other])
    assert spark_engine._total(kernel, [one]).households == 0


def test_a_row_in_the_wrong_bucket_is_refused(kernel, shuffled):
    for number in (0, shuffled.num_rows // 2):
        buckets = shuffled["bucket"].to_numpy().copy()
        buckets[number] = (buckets[number] + 1) % 4096
        wrong = shuffled.set_column(0, "bucket", pa.array(buckets))
        with pytest.raises(ValueError, match="not in the bucket of its key"):
            partition(kernel, wrong)


def test_a_shuffle_that_splits_a_key_is_refused(us, spark, small_frames, monkeypatch):
    """As if Spark split a large partition."""
    from pyspark.sql.classic.dataframe import DataFrame

    repartition = DataFrame.repartition
    monkeypatch.setattr(DataFrame, "repartition", lambda self, column: repartition(self, 3))
    with pytest.raises(PHSafeError, match="rows of one household key in several partitions"):
        scan_tables(load(small_frames, spark), Config.load(us), spark)


def test_a_session_with_large_variable_types(us, small_frames, spark_options, monkeypatch):
    """Arrow settings of the caller's session have no effect, even if some batches have raw values."""
    monkeypatch.setitem(spark_reader.PINNED, "spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    session = spark_options.session
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    is_unknown = pl.int_range(pl.len()) % 500 == 7
    persons = small_frames["persons"].with_columns(RELSHIP=pl.when(is_unknown).then(pl.lit("é")).otherwise("RELSHIP"))
    try:
        found = tabulate(us, small_frames | {"persons": persons}, options=spark_options, skip_validation=True)
    finally:
        session.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    assert found.equals(tabulate(us, small_frames | {"persons": persons}, skip_validation=True))
