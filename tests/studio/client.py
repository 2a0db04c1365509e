"""A plain HTTP client that says exactly what it is told, and reads event streams."""

from __future__ import annotations

import http.client
import json
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from scrl.studio.serving import Running


@dataclass
class Said:
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Speaks to one server; headers of None are left out."""

    running: Running
    cookie: str = ""
    window: str = "window-of-test"
    headers: dict[str, str | None] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.running.port}"

    def enter(self) -> None:
        """Exchange the token for the cookie."""
        query = urlsplit(self.running.address).query
        said = self.get(f"/?{query}")
        assert said.status == 303
        self.cookie = said.headers["set-cookie"].partition(";")[0]

    def get(self, path: str, **headers: str | None) -> Said:
        return self.ask("GET", path, None, headers)

    def post(self, path: str, body: Any = None, **headers: str | None) -> Said:
        data = json.dumps({"window": self.window, **(body or {})}).encode()
        given = {"content_type": "application/json", "origin": f"http://{self.host}", **headers}
        return self.ask("POST", path, data, given)

    def ask(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str | None]
    ) -> Said:
        connection = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=20)
        try:
            self._send(connection, method, path, data, headers)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Said(answer.status, found, answer.read())
        finally:
            connection.close()

    def _send(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str | None],
    ) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"host": self.host, "cookie": self.cookie or None, **self.headers, **named}
        if data is not None:
            given.setdefault("content-length", str(len(data)))
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in given.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(data)

    def events(
        self, path: str | None = None, **headers: str | None
    ) -> Generator[tuple[str, Any], None, None]:
        """Events with their data, as they come; the connection ends with the iterator."""
        connection = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=30)
        try:
            target = path or f"/api/events?window={self.window}"
            self._send(connection, "GET", target, None, headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            name = ""
            while line := answer.readline():
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    yield name, json.loads(text.removeprefix("data: "))
        finally:
            connection.close()
