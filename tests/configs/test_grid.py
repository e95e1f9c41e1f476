import numpy as np
import pytest

from phsafe.configs import grid
from phsafe.configs.config import Config

ROWS = {
    "PH1_num": 1040, "PH1_denom": 520, "PH2": 416, "PH3": 3640, "PH4": 1040, "PH5_num": 1040, "PH5_denom": 520,
    "PH6": 832, "PH7": 1560, "PH8_num": 1040, "PH8_denom": 1040,
}  # fmt: skip


def outputs(config):
    return {output.name: output for output, _ in config.outputs()}


@pytest.mark.parametrize("name", ROWS)
def test_rows_for_the_51_states_and_the_nation(us, name):
    config = Config.load(us)
    frame = grid.rows(config, outputs(config)[name])
    assert frame.height == frame.n_unique() == ROWS[name]


def test_outputs(us):
    assert set(outputs(Config.load(us))) == set(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_puerto_rico_has_no_nation_rows(pr, name):
    config = Config.load(pr)
    frame = grid.rows(config, outputs(config)[name])
    assert frame["REGION_TYPE"].unique().to_list() == ["STATE"]
    assert frame["REGION_ID"].unique().to_list() == ["72"]
    assert frame.height * 52 == ROWS[name]


def vectors(config, value=lambda name, level, n: np.arange(n)):
    return {
        (m.tabulation.name, m.level.key): value(
            m.tabulation.name, m.level, len(grid.level_rows(config, m.tabulation, m.level))
        )
        for m in config.measurements()
    }


def test_canonical_order(us):
    config = Config.load(us)
    frame = grid.output_frame(config, outputs(config)["PH3"], vectors(config))
    keys = list(frame.select("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "DATA_CELL").iter_rows())
    order = {"USA": 0, "STATE": 1}
    assert keys == sorted(keys, key=lambda k: (order[k[0]], k[1], "*ABCDEFGHI".index(k[2]), k[3]))
    assert keys[0] == ("USA", "1", "*", 2)
    assert keys[-1] == ("STATE", "56", "I", 10)


def test_counts_stay_with_their_rows(us):
    """Each count is the index of its row, so sorting must move both together."""
    config = Config.load(us)
    output = outputs(config)["PH3"]
    counts = vectors(config)
    frame = grid.output_frame(config, output, counts)
    found = {row[:4]: row[4] for row in frame.select(*grid.KEYS, "COUNT").iter_rows()}
    for level in config.levels_of(output):
        for i, key in enumerate(grid.level_rows(config, output, level)):
            assert found[key] == i


def test_derived_counts(us):
    config = Config.load(us)
    derived = outputs(config)["PH8_num"]
    assert grid.derive(config, derived, np.array([1, 2, 4, 10, 20, 40])).tolist() == [3, 4, 30, 40]
    frame = grid.output_frame(config, derived, vectors(config, lambda name, level, n: np.full(n, 5)))
    assert frame.filter(DATA_CELL=2)["COUNT"].unique().to_list() == [10]
    assert frame.filter(DATA_CELL=3)["COUNT"].unique().to_list() == [5]


def test_the_grid_follows_the_state_filter(us_document):
    config = Config.load(us_document | {"state_filter": ["56", "44"]})
    frame = grid.rows(config, outputs(config)["PH2"])
    assert frame["REGION_ID"].unique(maintain_order=True).to_list() == ["1", "44", "56"]
