"""The server as strangers see it, and the events and answers that our own page gets."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scrl.studio.serving import Running, bound_socket, serving
from scrl.studio.session import Session

from ..cli.shell import call
from .client import Client
from .test_session import SQUARES

EVERYTHING = ["/", "/static/report.css", "/api/events?window=window-of-test", "/api/map", "/report",
              "/api/export?format=csv"]  # fmt: skip
POSTS = ["check", "estimate", "rules", "setting", "undo", "redo", "reload", "loosen", "trade",
         "save", "save-as", "open", "draw-region", "rename-region", "delete-region",
         "keep-plan", "drop-plan", "train", "resume-training", "cancel-training"]  # fmt: skip


def test_the_token_of_the_first_address_becomes_a_cookie(running: Running) -> None:
    client = Client(running)
    said = client.get("/" + running.address.partition("/?")[2].join(["?", ""]))
    assert said.status == 303
    assert said.headers["location"] == "/"
    cookie = said.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "token" not in said.headers["location"]


def test_the_server_listens_on_this_machine_alone(running: Running) -> None:
    assert running.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("path", EVERYTHING)
def test_nobody_without_the_cookie_sees_anything(client: Client, path: str) -> None:
    name = client.cookie.partition("=")[0]
    for cookie in (None, f"{name}=", f"{name}=wrong", "other=1", client.cookie + "x", "é;;=\0"[:4]):
        said = client.get(path, cookie=cookie and cookie.encode().decode("latin-1"))
        assert said.status == 403
        assert b"open the address" in said.body
    assert client.get("/?token=wrong", cookie=None).status == 403
    assert client.get(f"{path}{'&' if '?' in path else '?'}token=", cookie=None).status == 403


@pytest.mark.parametrize("path", EVERYTHING)
def test_every_request_is_checked_for_its_address_and_origin(client: Client, path: str) -> None:
    """So that no page of another name, such as one that was rebound to 127.0.0.1, gets in."""
    for host in ("evil.example", "127.0.0.1", "127.0.0.1:1", f"evil.example:{client.running.port}"):
        assert client.get(path, host=host).status == 421
    assert client.get(path, host=None).status in (400, 421)
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"https://{client.host}"):
        assert client.get(path, origin=origin).status == 403
    assert client.get(path, sec_fetch_site="cross-site").status == 403
    assert client.get(path, sec_fetch_site="same-site").status == 403


@pytest.mark.parametrize("name", POSTS)
def test_nothing_is_changed_for_a_forged_request(client: Client, name: str) -> None:
    before = client.running.hub.session.document
    path = f"/api/{name}"
    assert client.post(path, cookie=None).status == 403
    assert client.post(path, origin=None).status == 403
    assert client.post(path, origin="http://evil.example").status == 403
    assert client.post(path, host="evil.example").status == 421
    assert client.post(path, content_type="text/plain").status == 415
    assert client.get(path).status == 405
    assert client.ask("DELETE", path, None, {}).status == 405
    assert client.running.hub.session.document == before


def test_our_own_page_gets_what_it_asks_for(client: Client) -> None:
    said = client.get("/")
    assert said.status == 200
    policy = said.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    for header in ("x-content-type-options", "referrer-policy", "cross-origin-resource-policy"):
        assert header in said.headers
    assert client.get("/", host=f"localhost:{client.running.port}").status == 200
    assert client.get("/static/report.css").headers["content-type"].startswith("text/css")


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/..%2fserver.py", "/static/%2e%2e/%2e%2e/errors.py",
     "/static//etc/passwd", "/static/problem.toml", "/../../etc/passwd", "/static/", "/field",
     "/static/index.html%00", "/api", "/api/unknown"],
)  # fmt: skip
def test_no_path_leads_to_other_files(client: Client, path: str) -> None:
    assert client.get(path).status == 404


@pytest.mark.parametrize(
    "name",
    ["../x.geojson", "..%2fx.geojson", "/x.geojson", "x/y.geojson", "%2Fx%2Fx.geojson", "x.toml",
     "x.py", "", "%00.geojson"],
)  # fmt: skip
def test_an_upload_goes_nowhere_else(client: Client, name: str) -> None:
    folder = client.running.hub.session.place.folder
    assert folder is not None
    before = sorted(folder.parent.rglob("*"))
    headers = {"content_type": "application/octet-stream", "origin": f"http://{client.host}"}
    said = client.ask("POST", f"/api/open?name={name}", json.dumps(SQUARES).encode(), {**headers})
    assert said.status == 400
    assert sorted(folder.parent.rglob("*")) == before


def test_a_huge_upload_is_refused_before_it_is_read(client: Client) -> None:
    headers = (
        f"POST /api/open?name=x.npy HTTP/1.1\r\nHost: {client.host}\r\nCookie: {client.cookie}\r\n"
        f"Origin: http://{client.host}\r\nContent-Type: application/octet-stream\r\n"
    )
    with socket.create_connection(("127.0.0.1", client.running.port), timeout=10) as stream:
        stream.sendall(f"{headers}Content-Length: 100000000\r\n\r\n".encode())
        assert b" 413 " in stream.recv(1_000)
    with socket.create_connection(("127.0.0.1", client.running.port), timeout=10) as stream:
        stream.sendall(f"{headers}Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"100000\r\n" + bytes(0x100000) + b"\r\n"
        sent = 0
        try:
            while sent < 100:  # MB
                stream.sendall(chunk)
                sent += 1
        except OSError:  # the server has hung up
            pass
        assert sent < 60
    assert client.post("/api/check", content_length="3000000").status == 413


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("check", {}), ("check", {"rules": 3}), ("check", {"rules": [1]}),
        ("check", {"rules": [{"name": "a", "text": 1}]}),
        ("rules", {"rules": [{"name": "a", "text": ""}, {"name": "a", "text": ""}]}),
        ("rules", {"rules": [{"name": "a\nb", "text": ""}]}),
        ("rules", {"rules": [{"name": f"{n}", "text": ""} for n in range(300)]}),
        ("rules", {"rules": [{"name": "a", "text": "x" * 30_000}]}),
        ("estimate", {"rules": []}), ("estimate", {"rules": [], "number": 1, "window": "unknown"}),
        ("setting", {"table": "vehicle", "key": "max_speed", "value": -1}),
        ("setting", {"table": "vehicle", "key": "max_speed", "value": [1]}),
        ("setting", {"table": "map", "key": "x", "value": 1}),
        ("setting", {"table": "world", "key": "map", "value": "/etc/passwd"}),
        ("draw-region", {"name": "S1"}), ("draw-region", {"name": "S1", "polygons": [[[[0, 0]]]]}),
        ("draw-region", {"name": "S1", "polygons": [[[[0, 0], [1, 0], [1, 1e300]]]]}),
        ("draw-region", {"name": "S1", "polygons": [[[[0, 0], [1, 0], ["1", 1]]]]}),
        ("draw-region", {"name": 'a"b', "polygons": [[[[0, 0], [9, 0], [9, 9]]]]}),
        ("draw-region", {"name": "", "polygons": [[[[0, 0], [9, 0], [9, 9]]]]}),
        ("draw-region", {"name": "x", "polygons": [[[[0, 0], [9, 0], [18, 0]]]]}),  # no area
        ("rename-region", {"name": "S1", "to": "S2"}), ("rename-region", {"name": "?", "to": "b"}),
        ("delete-region", {"name": "unknown"}),
        ("train", {"seeds": 0}), ("train", {"seeds": 1, "steps": 0.5}), ("resume-training", {}),
        ("trade", {"rule": "none", "start": 0}), ("save-as", {"name": "../x"}), ("save-as", {}),
    ],
)  # fmt: skip
def test_wrong_requests_have_a_clear_answer(client: Client, path: str, body: object) -> None:
    said = client.post(f"/api/{path}", body)
    assert said.status == 400
    assert said.json["error"]


def test_what_is_not_json_is_refused(client: Client) -> None:
    headers = {"content_type": "application/json", "origin": f"http://{client.host}"}
    for data in (b"", b"{", b"[1]", b"[" * 100_000, b"\xff"):
        assert client.ask("POST", "/api/check", data, {**headers}).status == 400


def test_edits_reach_every_window(client: Client) -> None:
    events = client.events()
    name, state = next(events)
    assert name == "state"
    rules = [{"name": "<img src=x>", "text": "S1 >= 300", "on": True}]
    said = client.post("/api/rules", {"rules": rules})
    assert said.status == 200
    assert said.json["document"]["rules"] == rules
    while name != "state" or state["version"] == 0:
        name, state = next(events)
    assert state["document"]["rules"] == rules
    assert client.post("/api/undo").json["canRedo"]
    events.close()


def test_an_edit_of_a_page_that_saw_another_version_is_refused(client: Client) -> None:
    hub, session = client.running.hub, client.running.hub.session
    corners = [[0.0, 0.0], [9.0, 0.0], [9.0, 9.0]]
    drawn = {"name": "new", "polygons": [[corners]]}
    seen = client.post("/api/draw-region", {**drawn, "seen": hub.version}).json["version"]
    assert "new" in session.world().regions
    assert client.post("/api/delete-region", {"name": "new", "seen": seen}).status == 200
    said = client.post("/api/draw-region", {**drawn, "seen": seen})
    assert said.status == 409
    assert "changed in another window" in said.json["error"]
    assert "new" not in session.world().regions
    assert client.post("/api/undo", {"seen": seen}).status == 409
    assert client.post("/api/undo", {"seen": hub.version}).status == 200
    assert client.post("/api/undo", {"seen": "1"}).status == 400
    assert client.post("/api/undo").status == 200


def test_too_many_windows_are_refused(client: Client) -> None:
    streams = [client.events(f"/api/events?window=window-{number:04d}") for number in range(16)]
    for stream in streams:
        next(stream)
    assert client.get("/api/events?window=one-too-many").status == 429
    assert client.get("/api/events?window=<script>").status == 400
    for stream in streams:
        stream.close()
    until = time.monotonic() + 10  # a browser that went away is noticed
    while client.running.hub.windows and time.monotonic() < until:
        client.running.hub.tell("progress", {})
        time.sleep(0.05)
    assert not client.running.hub.windows


def test_older_estimates_are_dropped(client: Client) -> None:
    events = client.events()
    next(events)
    hub = client.running.hub
    rules = [{"name": "a", "text": "S1 >= 300", "on": True}]
    window = hub.windows[client.window]
    found = {}

    def ask(number: int) -> None:
        found[number] = client.post(
            "/api/estimate", {"rules": rules, "number": number, "view": "given"}
        ).json

    with window.lock:  # a computation is under way
        threads = [threading.Thread(target=ask, args=(number,)) for number in (1, 2, 3)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + 10
        while window.newest < 3 and time.monotonic() < until:
            time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert found[1] == found[2] == {"stale": True}
    assert found[3]["possible"] is True
    events.close()


def test_answers_leave_at_once() -> None:
    """Without TCP_NODELAY the body of an answer waits 40 ms for its headers to be acknowledged."""
    found: list[int] = []

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken = writer.get_extra_info("socket")
        found.append(taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    async def visit() -> None:
        async with await asyncio.start_server(answer, sock=bound_socket(0)) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            await reader.read()
            writer.close()
            await writer.wait_closed()

    with ThreadPoolExecutor(1) as aside:  # the browser of other tests has the loop of this thread
        aside.submit(lambda: asyncio.run(visit())).result()
    assert found == [1]


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = call("studio", "agri", "--no-browser", "--port", str(port), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"scrl: port {port} is taken")
    assert list(tmp_path.iterdir()) == []


def started(folder: Path, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A studio in a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scrl", "studio", *arguments, "--no-browser"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


class Address(Running):
    """A server in another process, as far as a client needs it."""

    def __init__(self, address: str) -> None:
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=[\w-]+", address)
        assert found is not None
        self.address, self.port = address, int(found[1])


def members(group: int) -> list[str]:
    """The processes of a group."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                if int((each / "stat").read_text().rpartition(")")[2].split()[2]) == group:
                    found.append(each.name)
            except (OSError, IndexError):
                continue
    return found


def test_a_killed_server_loses_no_edit_and_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    process, address = started(tmp_path, "agri-joint")
    rules = [{"name": "a", "text": "S1 >= 301", "on": True}]
    client = Client(Address(address))
    client.enter()
    assert client.post("/api/rules", {"rules": rules}).status == 200
    process.kill()
    process.communicate(timeout=10)
    process, address = started(tmp_path, "agri-joint")
    client = Client(Address(address))
    client.enter()
    events = client.events()
    _, state = next(events)
    assert state["document"]["rules"] == rules
    assert "resumed" in state["notices"][0]
    os.kill(process.pid, signal.SIGINT)  # while a plan is computed and a page is open
    _, said = process.communicate(timeout=15)
    assert process.returncode == 0
    assert "unsaved changes are kept" in said
    assert "Traceback" not in said
    assert members(process.pid) == []
    events.close()


def test_the_server_ends_soon_with_pages_open(tmp_path: Path) -> None:
    begun = time.monotonic()
    with serving(Session.open("agri-joint")) as found:
        client = Client(found)
        client.enter()
        events = client.events()
        next(events)
    assert time.monotonic() - begun < 8
    assert all(name != "lost" for name, _ in events)  # the stream ends, and the client with it
