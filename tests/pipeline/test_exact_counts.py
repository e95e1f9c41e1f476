import numpy as np
import pytest

from phsafe.configs.config import Config
from phsafe.configs.grid import level_rows
from phsafe.errors import OutputError
from phsafe.pipeline.exact_counts import NOT_PRIVATE, tidy, write_counts


@pytest.fixture
def config(pr):
    return Config.load(pr)


@pytest.fixture
def counts(config):
    return {
        (m.tabulation.name, m.level.key): np.arange(len(level_rows(config, m.tabulation, m.level)))
        for m in config.measurements()
    }


def test_one_tidy_frame(config, counts):
    frame = tidy(config, counts)
    assert frame.columns == ["TABULATION", "REGION_TYPE", "REGION_ID", "ITERATION_CODE", "DATA_CELL", "COUNT"]
    assert frame.height == 12_688 // 52
    assert frame["TABULATION"].unique(maintain_order=True).to_list() == [o.name for o, _ in config.outputs()]


def test_the_folder_carries_its_warning(config, counts, tmp_path, read_folder):
    write_counts(config, counts, tmp_path / "out")
    assert (tmp_path / "out" / "NOT_PRIVATE").read_text() == NOT_PRIVATE
    found = {tuple(row[:5]): row[5] for row in tidy(config, counts).iter_rows()}
    assert read_folder(tmp_path / "out") == found


def test_a_failure_leaves_nothing(config, counts, tmp_path):
    del counts["PH7", "state_*"]
    with pytest.raises(KeyError):
        write_counts(config, counts, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_folder_is_not_replaced(config, counts, tmp_path):
    with pytest.raises(OutputError):
        write_counts(config, counts, tmp_path)
    assert list(tmp_path.iterdir()) == []
