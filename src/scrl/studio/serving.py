"""Runs the studio on this machine alone until Ctrl-C."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread

import uvicorn

from scrl.studio.errors import StudioError
from scrl.studio.hub import Hub
from scrl.studio.server import Server
from scrl.studio.session import Session

HOST = "127.0.0.1"
MOST_CONNECTIONS = 64


def bound_socket(port: int) -> socket.socket:
    """A socket of this machine alone; port 0 takes a free one."""
    # asyncio sets TCP_NODELAY only where the protocol is named; without it the body of an answer
    # waits 40 ms for the browser to acknowledge the headers.
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
        found.listen(MOST_CONNECTIONS)  # so that a browser may come before the server runs
    except OSError as error:
        found.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            why = "is taken" if error.errno == errno.EADDRINUSE else "may not be used"
            raise StudioError(
                f"port {port} {why}: choose another one with --port, or leave it out"
            ) from None
        raise
    return found


class Running:
    """A bound server: its address, and `run`, which returns after Ctrl-C."""

    def __init__(self, session: Session, port: int = 0) -> None:
        self.socket = bound_socket(port)
        self.port: int = self.socket.getsockname()[1]
        self.hub = Hub(session)
        self.server = Server(self.hub)
        guard = self.server.guarded(self.port)
        self.address = f"http://{HOST}:{self.port}/?token={guard.token}"
        config = uvicorn.Config(
            guard, log_config=None, access_log=False, server_header=False, date_header=False,
            proxy_headers=False, lifespan="off", ws="none", limit_concurrency=MOST_CONNECTIONS,
            timeout_graceful_shutdown=1, timeout_keep_alive=30,
        )  # fmt: skip
        self.uvicorn = _EndingServer(config, self.server)

    def run(self) -> None:
        """Serve until interrupted, then end every stream and all work."""
        try:
            self.uvicorn.run(sockets=[self.socket])
        except KeyboardInterrupt:  # raised again after an orderly end
            pass
        finally:
            self.hub.close()
            self.socket.close()

    def stop(self) -> None:
        """Have `run` return soon."""
        self.uvicorn.should_exit = True


class _EndingServer(uvicorn.Server):
    """Ends the event streams first, since they would keep the server waiting."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self.streams = server

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.streams.is_ending.set()
        await super().shutdown(sockets)


@contextmanager
def serving(session: Session, port: int = 0) -> Iterator[Running]:
    """A server in a thread of this process, for tests and tools."""
    running = Running(session, port)
    thread = Thread(target=running.run, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        running.stop()
        thread.join(timeout=10)
        running.hub.jobs.join(timeout_s=60)


def serve(target: str | None, port: int, ready: Callable[[Running], None]) -> Session:
    """Open a problem and serve it; `ready` is called once the address is known."""
    session = Session.open(target)
    try:
        running = Running(session, port)
    except BaseException:
        session.close()
        raise
    running.hub.ask()  # before the browser is there
    ready(running)
    running.run()
    return session
