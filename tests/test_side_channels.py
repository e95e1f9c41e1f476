"""After the noise, nothing but COUNT depends on the data: not bytes, sizes, times, order, logs or exit codes.

COUNT is public once it has noise, so what follows from it (its digits, hence a file's size and hash) is public too.
"""

import hashlib
import json
import os
import re
import stat
import time

import pytest

from phsafe.config import Config
from phsafe.grid import level_rows
from phsafe.privacy import mechanism
from phsafe.releasing import release_tables
from phsafe.scan import Settings


@pytest.fixture(scope="module")
def worlds(small, parity, small_frames, tmp_path_factory):
    """Very different inputs: a small one, one with giant households, and one in which nobody lives anywhere."""
    empty = tmp_path_factory.mktemp("empty")
    for name, frame in small_frames.items():
        frame.clear().write_csv(empty / f"{name}.csv")
    return {"small": small, "parity": parity, "empty": empty}


@pytest.fixture
def config(tmp_path, us_document):
    for name, levels in us_document["privacy_budget"].items():
        for key in levels:
            if name not in ("PH1_num", "PH1_denom", "PH7") or not key.endswith("*"):
                levels[key] = 0
    path = tmp_path / "config.json"
    path.write_text(json.dumps(us_document | {"state_filter": ["44", "50", "56"]}, default=float))
    return path


def test_two_releases_differ_in_count_and_in_nothing_else(phsafe_command, worlds, config, tmp_path):
    """Byte by byte, with all that the command says and the file system shows."""
    seen = {}
    for name, data in worlds.items():
        folder = tmp_path / name
        folder.mkdir()
        data_link, out = folder / "data", folder / "out"
        data_link.symlink_to(data)
        before = os.umask(0o022)
        try:
            outcome = phsafe_command("release", config, data_link, out, "--skip-validation")
        finally:
            os.umask(before)
        seen[name] = {"said": _without_random(outcome, folder), **_folder(out)}
    assert {"ph1_num.csv", "ph1_denom.csv", "ph7.csv", "ph8_num.csv"} < set(seen["small"])
    assert seen["small"] == seen["parity"] == seen["empty"]


def _without_random(outcome, folder):
    """What was said, without the paths given, the release's random id and the ledger's head, which hashes it."""
    texts = [text.replace(str(folder), "FOLDER") for text in (outcome.out, outcome.err)]
    texts = [re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", text) for text in texts]
    return outcome.code, *(re.sub(r"\b[0-9a-f]{64}\b", "HEAD", text) for text in texts)


def _folder(out):
    """Everything of a release folder but COUNT, the hashes of the files that hold it, and the random id."""
    found = {"order": [entry.name for entry in os.scandir(out)]}
    found["modes and times"] = [
        (str(path.relative_to(out)), stat.S_IMODE(path.stat().st_mode), path.stat().st_mtime_ns)
        for path in sorted([out, *out.rglob("*")])
    ]
    manifest = json.loads((out / "manifest.json").read_text())
    hashes, release_id = manifest["files"], manifest["release_id"]
    text = (out / "manifest.json").read_text().replace(release_id, "ID")
    for path in sorted(out.rglob("*.csv")):
        content = path.read_bytes()
        lines = [line.split(b"|") for line in content.split(b"\n")]
        place = lines[0].index(b"COUNT")
        counts = [line.pop(place) for line in lines[:-1]]
        rest = b"\n".join(b"|".join(line) for line in lines)
        # The size is that of the rest and of COUNT's digits: no padding, no block, nothing besides.
        assert len(content) == len(rest) + sum(len(count) + 1 for count in counts)
        assert hashlib.sha256(content).hexdigest() == hashes[str(path.relative_to(out))]
        text = text.replace(hashes[str(path.relative_to(out))], "HASH")
        found[path.name] = rest
        found[f"{path.name} form"] = [bool(re.fullmatch(rb"0|-?[1-9][0-9]*", count)) for count in counts[1:]]
        assert all(found[f"{path.name} form"])
    return found | {"manifest": text}


def test_times_say_the_day_and_no_more(worlds, config, tmp_path):
    """A finer time would say how long counting took, to whoever knows when it began."""
    release_tables(
        Config.load(config), worlds["small"], tmp_path / "out", tmp_path / "l", Settings(skip_validation=True)
    )
    times = {path.stat().st_mtime for path in [tmp_path / "out", *(tmp_path / "out").rglob("*")]}
    (day,) = times
    assert day % 86_400 == 0 and time.time() - day < 2 * 86_400


def test_as_many_draws_whatever_the_data(worlds, config, tmp_path, monkeypatch):
    """One draw for each row of the public grid, in the plan's order: the work of sampling says nothing."""
    loaded = Config.load(config)
    really, drawn = mechanism.make_noise, []

    def counted(definition, size, scale):
        drawn.append((definition, size, scale))
        return really(definition, size, scale)

    monkeypatch.setattr(mechanism, "make_noise", counted)
    seen = []
    for name, data in worlds.items():
        drawn.clear()
        mechanism._accepts.cache_clear()
        release_tables(loaded, data, tmp_path / name, tmp_path / f"{name}.l", Settings(skip_validation=True))
        seen.append(list(drawn))
    assert seen[0] == seen[1] == seen[2]
    sizes = [len(level_rows(loaded, m.tabulation, m.level)) for m in loaded.measurements()]
    # Size 1 is the calibration, which has no data; it comes before the first measurement with its budget.
    assert [size for _, size, _ in seen[0] if size > 1] == [size for size in sizes if size > 1]
