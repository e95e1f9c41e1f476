"""The commands as a person runs them."""

import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from phsafe.cli.explore import explore
from phsafe.cli.workbook import workbook
from phsafe.errors import PHSafeError
from phsafe.explorer.serve import Service
from phsafe.spec import Catalog, Table
from phsafe.tables import CENSUS_2020, PH2

RUN = "import typer; from phsafe.cli.explore import explore; typer.run(explore)"


def test_explore_prints_its_link_serves_and_stops():
    command = [sys.executable, "-c", RUN, "examples/pr.json", "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        address, token = link.removeprefix("http://").split("/#token=")
        host, port = address.split(":")
        assert host == "127.0.0.1"
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        connection.request("POST", "/api/start", b"{}", {"x-phsafe-token": token})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        assert answer["scenarios"][0]["name"] == "pr"
        process.send_signal(signal.SIGINT)
        process.wait(15)
        assert process.stdout.read() == ""
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_explore_refuses_bad_files_and_ports_in_words(tmp_path: Path):
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    with pytest.raises(PHSafeError) as error:
        explore(bad, shares=tmp_path / "absent.json")
    assert any("absent.json" in reason for reason in error.value.reasons)
    assert any("state_filter" in reason for reason in error.value.reasons)
    with Service(port=0) as taken, pytest.raises(PHSafeError, match="it is busy"):
        explore(port=taken.port)
    with pytest.raises(PHSafeError, match="expected the one address"):
        explore(host="0.0.0.0", port=0)


def test_workbook_refuses_a_place_that_is_not_there(tmp_path: Path):
    with pytest.raises(PHSafeError, match="to exist; make it first"):
        workbook(Path("examples/us.json"), tmp_path / "none" / "out.xlsx")


def test_a_catalog_of_ones_own_has_a_page_too():
    from phsafe.config import Config
    from phsafe.explorer.answers import evaluate, start
    from phsafe.explorer.public import truncation
    from phsafe.explorer.scenario import Scenario

    mine = Table("X1", "<img src=x onerror=alert(1)>", "people", PH2.shell, PH2.tabulations)
    catalog = Catalog((mine,), CENSUS_2020.levels)
    config = Config.load(
        {"privacy_budget": {"PH2": {"usa_*": 1, "state_*": 1}}, "tau": {"PH2": 3}, "state_filter": ["44"]},
        catalog,
    )
    scenario = Scenario.from_config(config, "mine")
    assert start(catalog, (scenario,), truncation())["standard"] == []
    answer = evaluate({"scenario": scenario.to_dict(), "focus": {"table": "X1"}}, catalog, truncation())
    assert answer["totals"]["unbounded"] == "2"
    with Service(config, port=0) as service:
        assert service.port
