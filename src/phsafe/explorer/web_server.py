"""The web server of the explorer page: its addresses (routes), static files, exports, and errors as JSON.

It is stateless and uses no data; scenarios and the undo history are kept in the browser.
"""

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
from phsafe.explorer import page_answers
from phsafe.explorer.access_guard import Guard
from phsafe.explorer.budget_conversion import conversion
from phsafe.explorer.page_solver import solved
from phsafe.explorer.public_tables import Truncation
from phsafe.explorer.scenario_files import ScenarioFile
from phsafe.model.exact_numbers import dumps
from phsafe.model.spec import Catalog

STATIC = Path(str(files("phsafe.explorer"))) / "static"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


@dataclass(frozen=True)
class Start:
    """What the page starts with: the catalog, the first scenarios, and the shares of people that truncation drops."""

    catalog: Catalog
    first: ScenarioFile
    shares: Truncation


def application(start: Start, token: str, hosts: tuple[str, ...]) -> ASGIApp:
    """Return the web application behind its access guard."""

    def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    calls: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "start": lambda _: page_answers.start(start.catalog, start.first, start.shares),
        "evaluate": lambda body: page_answers.evaluate(body, start.catalog, start.shares),
        "finished": lambda body: page_answers.finished(body, start.catalog),
        "convert": lambda body: conversion(body, start.catalog),
        "search": lambda body: page_answers.searched(body, start.catalog),
        "solve": lambda body: solved(body, start.catalog),
        "compare": lambda body: page_answers.compared(body, start.catalog),
        "open": lambda body: page_answers.opened(body, start.catalog),
    }
    routes = [Route(f"/api/{name}", _endpoint(call), methods=["POST"]) for name, call in calls.items()]
    routes.append(Route("/api/export/{kind}", _export(start), methods=["POST"]))
    app = Starlette(routes=[Route("/", page), *routes, Mount("/static", StaticFiles(directory=STATIC), name="static")])
    return Guard(app, token, hosts)


def _endpoint(call: Callable[[Mapping[str, Any]], Any]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        try:
            body = await _body(request)
            # Exact numbers are sent as strings; floats survive JSON to the last digit.
            result = await run_in_threadpool(call, body)
        except PHSafeError as error:
            return JSONResponse({"error": "; ".join(error.reasons)}, 400)
        return Response(dumps(result, indent=None), media_type="application/json")

    return answer


def _export(start: Start) -> Callable[[Request], Any]:
    async def export(request: Request) -> Response:
        try:
            body = await _body(request)
            kind = request.path_params["kind"]
            content = await run_in_threadpool(page_answers.export, kind, body, start.catalog, start.shares)
        except PHSafeError as error:
            return JSONResponse({"error": "; ".join(error.reasons)}, 400)
        media_types = {"workbook": XLSX, "summary": "text/html; charset=utf-8"}
        # The page saves what it fetches. As an attachment, an export never opens as a page of this server.
        return Response(
            content,
            media_type=media_types.get(kind, "application/json"),
            headers={"content-disposition": "attachment"},
        )

    return export


async def _body(request: Request) -> Mapping[str, Any]:
    try:
        document = json.loads(await request.body())
    except (ValueError, RecursionError, ClientDisconnect):
        raise PHSafeError("expected a request in JSON") from None
    if not isinstance(document, dict):
        raise PHSafeError("expected a JSON object")
    return document
