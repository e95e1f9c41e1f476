"""Only COUNT in a release depends on the data: no other bytes, sizes, times, order, logs or exit codes.

COUNT is public once noise is added, so anything computed from it (its digits, hence a file's size and hash) is public
too.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import time

import pytest

from phsafe.configs.config import Config
from phsafe.configs.grid import level_rows
from phsafe.pipeline.publish import publish
from phsafe.pipeline.release_ledger import LedgerChoice
from phsafe.pipeline.scan import Settings
from phsafe.privacy import mechanism


@pytest.fixture(scope="module")
def inputs(small, parity, small_frames, tmp_path_factory):
    """Very different inputs: a small one, one with very large households, and one without any records."""
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


def test_releases_differ_only_in_count(phsafe_command, inputs, config, tmp_path):
    """Compare all bytes, the command's output, and what the file system shows."""
    seen = {}
    for name, data in inputs.items():
        folder = tmp_path / name
        folder.mkdir()
        data_copy, out = folder / "data", folder / "out"
        shutil.copytree(data, data_copy)
        before = os.umask(0o022)
        try:
            outcome = phsafe_command("release", config, data_copy, out, "--skip-validation", "--new-ledger")
        finally:
            os.umask(before)
        seen[name] = {"output": _without_random(outcome, folder), **_folder(out)}
    assert {"ph1_num.csv", "ph1_denom.csv", "ph7.csv", "ph8_num.csv"} < set(seen["small"])
    assert seen["small"] == seen["parity"] == seen["empty"]


def _without_random(outcome, folder):
    """The output without the given paths, the release's random id, and the ledger's head, which hashes the id."""
    texts = [text.replace(str(folder), "FOLDER") for text in (outcome.out, outcome.err)]
    texts = [re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", text) for text in texts]
    return outcome.code, *(re.sub(r"\b[0-9a-f]{64}\b", "HEAD", text) for text in texts)


def _folder(out):
    """The release folder without COUNT, the hashes of files that contain it, and the random id."""
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
        position = lines[0].index(b"COUNT")
        counts = [line.pop(position) for line in lines[:-1]]
        rest = b"\n".join(b"|".join(line) for line in lines)
        # The size is that of the rest plus COUNT's digits: no padding or blocks.
        assert len(content) == len(rest) + sum(len(count) + 1 for count in counts)
        assert hashlib.sha256(content).hexdigest() == hashes[str(path.relative_to(out))]
        text = text.replace(hashes[str(path.relative_to(out))], "HASH")
        found[path.name] = rest
        found[f"{path.name} form"] = [bool(re.fullmatch(rb"0|-?[1-9][0-9]*", count)) for count in counts[1:]]
        assert all(found[f"{path.name} form"])
    return found | {"manifest": text}


def new_ledger(path):
    return LedgerChoice(path, is_new=True)


def test_file_times_reveal_only_the_day(inputs, config, tmp_path):
    """A finer time would reveal how long counting took to anyone who knows when it started."""
    publish(
        Config.load(config),
        inputs["small"],
        tmp_path / "out",
        new_ledger(tmp_path / "l"),
        Settings(skip_validation=True),
    )
    times = {path.stat().st_mtime for path in [tmp_path / "out", *(tmp_path / "out").rglob("*")]}
    (day,) = times
    assert day % 86_400 == 0 and time.time() - day < 2 * 86_400


def test_the_number_of_draws_is_independent_of_the_data(inputs, config, tmp_path, monkeypatch):
    """One draw for each row of the public grid, in plan order, so sampling reveals nothing."""
    loaded = Config.load(config)
    original, drawn = mechanism.make_noise, []

    def counted(definition, size, scale):
        drawn.append((definition, size, scale))
        return original(definition, size, scale)

    monkeypatch.setattr(mechanism, "make_noise", counted)
    seen = []
    for name, data in inputs.items():
        drawn.clear()
        mechanism._accepts.cache_clear()
        publish(loaded, data, tmp_path / name, new_ledger(tmp_path / f"{name}.l"), Settings(skip_validation=True))
        seen.append(list(drawn))
    assert seen[0] == seen[1] == seen[2]
    sizes = [len(level_rows(loaded, m.tabulation, m.level)) for m in loaded.measurements()]
    # Size 1 is the calibration, which involves no data; it precedes the first measurement with its budget.
    assert [size for _, size, _ in seen[0] if size > 1] == [size for size in sizes if size > 1]
