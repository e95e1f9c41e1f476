"""The page's server: access control, error messages for invalid documents, and no stored state."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from phsafe.configs.config import Config
from phsafe.errors import PHSafeError
from phsafe.explorer.access_guard import MAX_BODY
from phsafe.explorer.launch import Service
from phsafe.explorer.page_answers import evaluate, opened
from phsafe.explorer.page_solver import solved
from phsafe.explorer.public_tables import truncation
from phsafe.explorer.scenario_view import scenario_2020
from phsafe.model.tables import CENSUS_2020

US = Config.load("examples/us.json")


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service(US, port=0, name="my config") as service:
        thread = threading.Thread(target=service.run, daemon=True)
        thread.start()
        yield service
        service.server.should_exit = True
        thread.join(5)


def ask(service: Service, path: str, body: object = None, method: str = "POST", **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
    sent = {"host": f"127.0.0.1:{service.port}", "x-phsafe-token": service.token}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    connection.request(method, path, content, {k: v for k, v in sent.items() if v is not None})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response, text


def test_the_token_is_in_the_links_fragment(service):
    assert service.link == f"http://127.0.0.1:{service.port}/#token={service.token}"
    assert len(service.token) >= 32


def test_the_page_starts_with_the_config_and_the_2020_parameters(service):
    response, text = ask(service, "/api/start")
    assert response.status == 200
    assert [s["name"] for s in json.loads(text)["scenarios"]] == ["my config", "2020 parameters"]


@pytest.mark.parametrize("path", ["/api/start", "/api/evaluate", "/api/open", "/api/export/config", "/api/none"])
@pytest.mark.parametrize("token", ["", "wrong", "é", None])
def test_requests_without_the_token_are_refused(service, path, token):
    response, text = ask(service, path, x_phsafe_token=token.encode() if token == "é" else token)
    assert response.status == 401
    assert b"token" in text


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:80"},
        {"host": "127.0.0.1"},
        {"host": "localhost.evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/start"])
def test_other_hosts_and_origins_are_refused(service, path, headers):
    method = "POST" if path.startswith("/api") else "GET"
    response, text = ask(service, path, method=method, **headers)
    assert response.status in (403, 421)
    assert b"scenario" not in text


def test_the_pages_own_origin_is_accepted(service):
    own = {"origin": f"http://127.0.0.1:{service.port}", "sec_fetch_site": "same-origin"}
    assert ask(service, "/api/start", **own)[0].status == 200
    assert ask(service, "/api/start", host=f"localhost:{service.port}")[0].status == 200


def test_responses_carry_strict_security_headers(service):
    response, text = ask(service, "/", method="GET")
    assert response.status == 200
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in response.headers
    assert b"http://" not in text
    assert b"https://" not in text


@pytest.mark.parametrize("path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd", "/x"])
def test_nothing_outside_the_static_folder_is_served(service, path):
    assert ask(service, path, method="GET")[0].status in (400, 404)


def test_oversized_bodies_are_refused(service):
    assert ask(service, "/api/open", b" " * (MAX_BODY + 1))[0].status == 413
    assert ask(service, "/api/open", b"{}", content_length="-1")[0].status in (400, 413)


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b"1", b'"x"', b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("call", ["evaluate", "solve", "compare", "open", "finished", "search", "export/config"])
def test_malformed_bodies_get_an_error_message(service, call, body):
    response, text = ask(service, f"/api/{call}", body)
    assert response.status == 400
    assert json.loads(text)["error"]


@pytest.mark.parametrize(
    "change",
    [
        {"entries": 3}, {"entries": {"PH1_num": 3}}, {"entries": {"PH1_num": {"usa_*": 3}}}, {"tau": []},
        {"states": "all"}, {"states": [1]}, {"privacy": "none"}, {"sensitivity": []}, {"name": {}}, {"delta": None},
        {"entries": {"PH1_num": {"usa_*": {"value": 3.5, "on": True}}}},
    ],
)  # fmt: skip
def test_scenarios_with_the_wrong_structure_are_refused(change):
    document = scenario_2020().to_dict() | change
    with pytest.raises(PHSafeError, match="scenario"):
        evaluate({"scenario": document}, CENSUS_2020, truncation())


def test_unknown_names_are_dropped_and_long_texts_cut():
    document = scenario_2020().to_dict()
    document["entries"]["PH9"] = {"usa_*": {"value": "1", "on": True}}
    document["name"] = "x" * 10_000
    answer = opened({"text": json.dumps({"scenarios": [document]})}, CENSUS_2020)["scenarios"][0]
    assert "PH9" not in answer["entries"]
    assert len(answer["name"]) == 80


def test_invalid_states_are_reported_for_the_scenario():
    document = scenario_2020().to_dict() | {"states": ["99"]}
    assert "state_filter" in evaluate({"scenario": document}, CENSUS_2020, truncation())["problems"]["scenario"]


@pytest.mark.parametrize("total", ["", "x", "-1", "0", "1e400", "NaN", None, [], "0.000001"])
def test_an_invalid_total_is_reported_for_its_field(total):
    answer = solved({"scenario": scenario_2020().to_dict(), "total": total}, CENSUS_2020)
    assert answer["problems"]["total"]


def test_configs_open_as_scenarios_json_and_toml():
    text = Path("examples/us.json").read_text(encoding="utf-8")
    scenario = opened({"text": text, "name": "us.json"}, CENSUS_2020)["scenarios"][0]
    assert scenario["name"] == "us"
    assert scenario["entries"]["PH1_denom"]["usa_*"]["value"] == "0.000022"
    for bad in (
        "",
        "{",
        "3",
        '{"a": 1, "a": 2}',
        '{"scenarios": []}',
        '{"scenarios": 1}',
        '{"privacy_budget": {}}',
    ):
        with pytest.raises(PHSafeError):
            opened({"text": bad}, CENSUS_2020)
    with pytest.raises(PHSafeError):
        opened({"text": "= 3", "name": "x.toml"}, CENSUS_2020)


def test_a_busy_default_port_falls_back_and_a_foreign_address_is_refused():
    with Service() as first, Service() as second:
        assert first.port != second.port
    with pytest.raises(PHSafeError, match="can't listen"):
        Service(host="192.0.2.1", port=0)
