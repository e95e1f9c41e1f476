"""`phsafe explore` and `phsafe workbook` as a user runs them."""

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
from phsafe.explorer.launch import Service
from phsafe.explorer.scenario_view import scenario_2020
from phsafe.explorer.share_links import to_link
from phsafe.model.spec import Catalog, Table
from phsafe.model.tables import CENSUS_2020, PH2

RUN = "import typer; from phsafe.cli.explore import explore; typer.run(explore)"


def test_explore_prints_its_link_serves_the_page_and_stops():
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


def test_explore_opens_a_shared_link_in_any_copy():
    document = scenario_2020().to_dict() | {"name": "from afar"}
    link = to_link({"scenarios": [document], "pins": [], "baseline": document}, "http://127.0.0.1:1/")
    command = [sys.executable, "-c", RUN, link, "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address, token = process.stdout.readline().strip().removeprefix("http://").split("/#token=")
        connection = http.client.HTTPConnection(address, timeout=20)
        connection.request("POST", "/api/start", b"{}", {"x-phsafe-token": token})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        process.send_signal(signal.SIGINT)
        process.wait(15)
    assert [scenario["name"] for scenario in answer["scenarios"]] == ["from afar"]
    assert answer["compared_with"]["name"] == "from afar"
    assert answer["pins"] == []
    with pytest.raises(PHSafeError, match="this link is broken"):
        explore("http://127.0.0.1:1/#s=AAAA", port=0)


def test_explore_explains_what_is_wrong_with_files_ports_and_hosts(tmp_path: Path):
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    with pytest.raises(PHSafeError) as error:
        explore(str(bad), shares=tmp_path / "absent.json")
    assert any("absent.json" in reason for reason in error.value.reasons)
    assert any("state_filter" in reason for reason in error.value.reasons)
    with Service(port=0) as taken, pytest.raises(PHSafeError, match="it is in use"):
        explore(port=taken.port)
    with pytest.raises(PHSafeError, match="expected the one address"):
        explore(host="0.0.0.0", port=0)


def test_workbook_refuses_a_folder_that_does_not_exist(tmp_path: Path):
    with pytest.raises(PHSafeError, match="to exist; create it first"):
        workbook(Path("examples/us.json"), tmp_path / "none" / "out.xlsx")


def test_the_page_works_with_a_custom_catalog():
    from phsafe.configs.config import Config
    from phsafe.explorer.page_answers import evaluate, start
    from phsafe.explorer.public_tables import truncation
    from phsafe.explorer.scenario import Scenario
    from phsafe.explorer.scenario_files import ScenarioFile

    table = Table("X1", "<img src=x onerror=alert(1)>", "people", PH2.shell, PH2.tabulations)
    catalog = Catalog((table,), CENSUS_2020.levels)
    config = Config.load(
        {"privacy_budget": {"PH2": {"usa_*": 1, "state_*": 1}}, "tau": {"PH2": 3}, "state_filter": ["44"]},
        catalog,
    )
    scenario = Scenario.from_config(config, "custom")
    assert start(catalog, ScenarioFile((scenario,)), truncation())["standard"] == []
    answer = evaluate({"scenario": scenario.to_dict(), "focus": {"table": "X1"}}, catalog, truncation())
    assert answer["totals"]["unbounded"] == "2"
    with Service(config, port=0) as service:
        assert service.port
