"""The addresses of the studio: the page, its files, events, and what the page asks for."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from importlib import resources
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route as Address

from scrl.errors import ScrlError
from scrl.studio.document import rules_from_json
from scrl.studio.errors import ChangedOnDiskError, StaleEditError, StudioError
from scrl.studio.guard import RequestGuard
from scrl.studio.hub import Hub
from scrl.studio.outlines import polygons_from_json
from scrl.studio.session import LARGEST_MAP_BYTES

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; sandbox"
)
HEARTBEAT_S = 10.0
"""Seconds between signs of life on a quiet event stream."""
MOST_EVENTS = 200
"""A window with more events that it has not taken is cut off; it connects again."""
MOST_SEEDS, MOST_STEPS = 8, 10**12
_WINDOW = re.compile(r"[\w-]{8,64}")

Body = dict[str, Any]


def page_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page by name; the style sheet of the report is one of them."""
    own = resources.files("scrl.studio") / "page"
    report = resources.files("scrl.report.page") / "templates" / "style.css"
    found = {each.name: each.read_bytes() for each in own.iterdir() if each.is_file()}
    found["report.css"] = report.read_bytes()
    return {
        name: (data, TYPES[suffix])
        for name, data in found.items()
        if (suffix := name[name.rfind(".") :]) in TYPES
    }


class Server:
    """Answers requests with what the hub knows."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.files = page_files()
        self.is_ending = asyncio.Event()

    def guarded(self, port: int) -> RequestGuard:
        """The whole application for a port."""
        posts: dict[str, Callable[[Body], Any]] = {
            "check": lambda body: self.hub.session.check(rules_from_json(body.get("rules"))),
            "estimate": self._estimate,
            "trade": self._trade,
            "keep-plan": lambda _: self._done(self.hub.keep_plan),
            "drop-plan": lambda _: self._done(lambda: self.hub.put_beside(None)),
            "train": self._train,
            "resume-training": lambda _: self._done(self.hub.resume_training),
            "cancel-training": lambda _: self._done(self.hub.cancel_training),
            "save": self._save,
            "save-as": self._save_as,
        }
        edits: dict[str, Callable[[Body], None]] = {
            "rules": lambda body: self.hub.session.set_rules(rules_from_json(body.get("rules"))),
            "setting": self._setting,
            "draw-region": self._draw_region,
            "rename-region": self._rename_region,
            "delete-region": lambda body: self.hub.session.delete_region(_text(body, "name")),
            "undo": lambda _: self.hub.session.undo(),
            "redo": lambda _: self.hub.session.redo(),
            "reload": lambda _: self.hub.session.reload(),
            "loosen": lambda _: self.hub.loosen(),
        }
        posts.update({name: partial(self._edited, edit) for name, edit in edits.items()})
        app = Starlette(
            routes=[
                Address("/", self._page),
                Address("/static/{name}", self._file),
                Address("/api/events", self._events),
                Address("/api/map", self._map),
                Address("/api/export", self._export),
                Address("/report", self._report),
                Address("/api/open", self._open, methods=["POST"]),
                *(
                    Address(f"/api/{name}", self._post(work), methods=["POST"])
                    for name, work in posts.items()
                ),
            ]
        )
        return RequestGuard(app, port, {"/api/open": LARGEST_MAP_BYTES})

    # The page -----------------------------------------------------------------------------------

    async def _page(self, _: Request) -> Response:
        return self._content("index.html")

    async def _file(self, request: Request) -> Response:
        return self._content(request.path_params["name"])

    def _content(self, name: str) -> Response:
        if name not in self.files:
            return PlainTextResponse("There is no such file.\n", 404)
        data, kind = self.files[name]
        return Response(data, media_type=kind)

    # Events -------------------------------------------------------------------------------------

    async def _events(self, request: Request) -> Response:
        name = request.query_params.get("window", "")
        if not _WINDOW.fullmatch(name):
            return _wrong("a window has a name of letters and digits")
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()

        def put(line: bytes) -> None:
            queue.put_nowait(line if queue.qsize() < MOST_EVENTS else None)

        def emit(event: str, data: Any) -> None:
            line = f"event: {event}\ndata: {_json(data)}\n\n".encode()
            if not loop.is_closed():
                loop.call_soon_threadsafe(put, line)

        try:
            window = await run_in_threadpool(self.hub.join, name, emit)
        except ScrlError as error:
            return _wrong(str(error), 429)
        stream = self._stream(queue, partial(self.hub.part, window))
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _stream(
        self, queue: asyncio.Queue[bytes | None], part: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        ending = asyncio.ensure_future(self.is_ending.wait())
        taking = asyncio.ensure_future(queue.get())
        try:
            while not ending.done():
                await asyncio.wait(
                    {taking, ending}, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
                )
                if not taking.done():
                    yield b": still here\n\n"
                    continue
                if (line := taking.result()) is None:
                    return
                taking = asyncio.ensure_future(queue.get())
                yield line
        finally:
            taking.cancel()
            ending.cancel()
            part()

    # What the page asks for ---------------------------------------------------------------------

    def _post(self, work: Callable[[Body], Any]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            if request.headers.get("content-type", "").split(";")[0] != "application/json":
                return _wrong("what is sent here is JSON", 415)
            try:
                body = json.loads(await request.body())
            except (ValueError, RecursionError):
                return _wrong("this is not JSON")
            if not isinstance(body, dict):
                return _wrong("a request is an object")
            return await _answered(lambda: work(body))

        return answer

    def _estimate(self, body: Body) -> Any:
        number = body.get("number")
        if not isinstance(number, int) or isinstance(number, bool):
            raise StudioError("an estimate has a number")
        rules, view = rules_from_json(body.get("rules")), _text(body, "view")
        return self.hub.estimate(_text(body, "window"), number, rules, view)

    def _setting(self, body: Body) -> None:
        table, key, value = _text(body, "table"), _text(body, "key"), body.get("value")
        values = value if isinstance(value, list) and len(value) == 2 else [value]
        if not all(isinstance(each, str | int | float | bool | None) for each in values):
            raise StudioError("a setting is a text, a number, two numbers, or true or false")
        self.hub.session.set_value(table, key, value)

    def _draw_region(self, body: Body) -> None:
        name, polygons = _text(body, "name"), polygons_from_json(body.get("polygons"))
        self.hub.session.draw_region(name, polygons)

    def _rename_region(self, body: Body) -> None:
        self.hub.session.rename_region(_text(body, "name"), _text(body, "to"))

    def _edited(self, edit: Callable[[Body], None], body: Body) -> Any:
        """An edit, where the page shows the present version; programs may leave that out."""
        seen = body.get("seen")
        if seen is not None and not isinstance(seen, int):
            raise StudioError("the version that a page shows is a whole number")
        return self.hub.edit(lambda: edit(body), seen)

    def _trade(self, body: Body) -> Any:
        start = body.get("start")
        if not isinstance(start, int) or isinstance(start, bool):
            raise StudioError("a number has a place in the text of its rule")
        self.hub.trade(_text(body, "window"), _text(body, "rule"), start)
        return {}

    def _train(self, body: Body) -> Any:
        steps = None if body.get("steps") is None else _whole(body, "steps", MOST_STEPS)
        seeds = _whole(body, "seeds", MOST_SEEDS)
        return self._done(lambda: self.hub.train(steps, seeds))

    def _done(self, work: Callable[[], None]) -> Any:
        work()
        return {}

    def _save(self, body: Body) -> Any:
        path = self.hub.session.save(overwrite=body.get("overwrite") is True)
        self.hub.tell("state", self.hub.state())
        return {"path": str(path)}

    def _save_as(self, body: Body) -> Any:
        path = self.hub.session.save_as(_text(body, "name"))
        self.hub.tell("state", self.hub.state())
        return {"path": str(path)}

    async def _map(self, _: Request) -> Response:
        return await _answered(self.hub.map)

    async def _open(self, request: Request) -> Response:
        if request.headers.get("content-type") != "application/octet-stream":
            return _wrong("a map is sent as application/octet-stream", 415)
        name, data = request.query_params.get("name", ""), await request.body()
        opened = partial(self.hub.session.open_map, name, data)
        return await _answered(lambda: self.hub.edit(opened))

    async def _export(self, request: Request) -> Response:
        name = request.query_params.get("format", "")
        try:
            file, data, warnings = await run_in_threadpool(self.hub.export, name)
        except ScrlError as error:
            return _wrong(str(error), 409)
        headers = {
            "content-disposition": f"attachment; filename*=UTF-8''{quote(file)}",
            "x-file-name": quote(file),
            "x-warnings": quote(json.dumps([text[:600] for text in warnings[:6]])),
        }
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def _report(self, _: Request) -> Response:
        try:
            text = await run_in_threadpool(self.hub.report)
        except ScrlError as error:
            return _wrong(str(error), 409)
        return Response(
            text, media_type=TYPES[".html"], headers={"content-security-policy": REPORT_POLICY}
        )


async def _answered(work: Callable[[], Any]) -> Response:
    """The result of work in a thread as JSON; an error of the user's as a message."""
    try:
        return Response(_json(await run_in_threadpool(work)), media_type="application/json")
    except (ChangedOnDiskError, StaleEditError) as error:
        return _wrong(str(error), 409)
    except ScrlError as error:
        return _wrong(str(error))
    except OSError as error:
        return _wrong(f"{error.filename or ''}: {error.strerror or error}", 500)


def _wrong(message: str, status: int = 400) -> Response:
    return JSONResponse({"error": message}, status)


def _json(data: Any) -> str:
    """One line of JSON; numbers that are not finite become null."""
    return json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


def _whole(body: Body, key: str, most: int) -> int:
    value = body.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
        raise StudioError(f"{key} is a whole number from 1 to {most:,}")
    return value


def _text(body: Body, key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or len(value) > 1_000:
        raise StudioError(f"{key} is a text")
    return value
