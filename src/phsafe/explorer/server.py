"""The page's server: it computes and forgets. All state (scenarios, undo) is in the browser; no data is anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from phsafe.errors import PHSafeError
from phsafe.exact import dumps
from phsafe.explorer import answers
from phsafe.explorer.guard import Guard
from phsafe.explorer.public import Truncation
from phsafe.explorer.scenario import Scenario
from phsafe.spec import Catalog

STATIC = Path(str(files("phsafe.explorer"))) / "static"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


@dataclass(frozen=True)
class Start:
    """What the page starts with."""

    catalog: Catalog
    scenarios: tuple[Scenario, ...]
    shares: Truncation


def application(start: Start, token: str, hosts: tuple[str, ...]) -> ASGIApp:
    """The guarded application."""

    def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    calls: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "start": lambda _: answers.start(start.catalog, start.scenarios, start.shares),
        "evaluate": lambda body: answers.evaluate(body, start.catalog, start.shares),
        "joint": lambda body: answers.joint(body, start.catalog),
        "solve": lambda body: answers.solved(body, start.catalog),
        "compare": lambda body: answers.compared(body, start.catalog),
        "open": lambda body: answers.opened(body, start.catalog),
    }
    routes = [Route(f"/api/{name}", _endpoint(call), methods=["POST"]) for name, call in calls.items()]
    routes.append(Route("/api/export/{kind}", _export(start), methods=["POST"]))
    app = Starlette(routes=[Route("/", page), *routes, Mount("/static", StaticFiles(directory=STATIC), name="static")])
    return Guard(app, token, hosts)


def _endpoint(call: Callable[[Mapping[str, Any]], Any]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        try:
            body = await _body(request)
            # Exact numbers travel as texts; what is left are floats, which JSON carries to the last digit.
            found = await run_in_threadpool(call, body)
        except PHSafeError as error:
            return JSONResponse({"error": "; ".join(error.reasons)}, 400)
        return Response(dumps(found, indent=None), media_type="application/json")

    return answer


def _export(start: Start) -> Callable[[Request], Any]:
    async def export(request: Request) -> Response:
        try:
            body = await _body(request)
            kind = request.path_params["kind"]
            content = await run_in_threadpool(answers.export, kind, body, start.catalog, start.shares)
        except PHSafeError as error:
            return JSONResponse({"error": "; ".join(error.reasons)}, 400)
        kinds = {"workbook": XLSX, "summary": "text/html; charset=utf-8"}
        # An export is a download: the page fetches it and saves it; it is never shown as a page of this server.
        return Response(
            content,
            media_type=kinds.get(kind, "application/json"),
            headers={"content-disposition": "attachment"},
        )

    return export


async def _body(request: Request) -> Mapping[str, Any]:
    try:
        document = json.loads(await request.body())
    except (ValueError, RecursionError, ClientDisconnect):
        raise PHSafeError("expected JSON") from None
    if not isinstance(document, dict):
        raise PHSafeError("expected an object")
    return document
