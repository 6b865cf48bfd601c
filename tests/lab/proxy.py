"""A TCP proxy on loopback that does to connections what networks do: freeze, reset, swallow, delay, cut in mid-upload.

Both directions of a connection are pumped by a thread each. What is told to the proxy holds for the connections there
are and, except `reset`, for those to come.
"""

import contextlib
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_LINGER_NOT = struct.pack("ii", 1, 0)  # close() sends RST


@dataclass(eq=False)
class _Link:
    client: socket.socket
    server: socket.socket | None
    sent_bytes: int = 0  # from the client to the server

    def reset(self) -> None:
        for end in (self.client, self.server):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
                    # shutdown wakes up a thread that waits in select or send; close alone does not.
                    end.shutdown(socket.SHUT_RD)
                with contextlib.suppress(OSError):
                    end.close()


@dataclass
class Proxy:
    """Stands before `port` of `host`. Told what to do by its methods, at any time."""

    port: int
    host: str = "127.0.0.1"
    delay_s: float = 0.0
    on_upload: Callable[["Proxy", int], None] = lambda proxy, sent_bytes: None
    """Called with the bytes that a connection has sent to the server so far, before the latest of them go on."""
    accepted: int = 0
    _links: set[_Link] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._flows = threading.Event()
        self._flows.set()
        self._swallows = self._refuses = self._closed = False
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.listens_at: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        """Nothing moves any more, and nobody is told: half-open connections."""
        self._flows.clear()

    def swallow(self) -> None:
        """New connections are accepted and hear nothing; those there are stay as they are."""
        self._swallows = True

    def refuse(self) -> None:
        """New connections are reset at once."""
        self._refuses = True

    def thaw(self) -> None:
        """Everything goes on as it should."""
        self._swallows = self._refuses = False
        self._flows.set()

    def reset(self) -> None:
        """End every connection there is by RST."""
        with self._lock:
            links, self._links = self._links, set()
        for link in links:
            link.reset()

    def close(self) -> None:
        self._closed = True
        self.thaw()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.reset()

    @property
    def connections(self) -> int:
        with self._lock:
            return len(self._links)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            link = _Link(client, None)
            with self._lock:
                self._links.add(link)
            if self._refuses:
                self._end(link)
            elif not self._swallows:
                threading.Thread(target=self._connect, args=(link,), daemon=True).start()

    def _connect(self, link: _Link) -> None:
        if not self._flows.wait(600):
            return
        try:
            link.server = socket.create_connection((self.host, self.port), timeout=5)
            link.server.settimeout(None)
        except OSError:
            self._end(link)
            return
        for source, to in ((link.client, link.server), (link.server, link.client)):
            threading.Thread(target=self._pump, args=(link, source, to), daemon=True).start()

    def _pump(self, link: _Link, source: socket.socket, to: socket.socket) -> None:
        try:
            while True:
                select.select([source], [], [])
                self._flows.wait()
                piece = source.recv(65536)
                if not piece:
                    break
                if source is link.client:
                    link.sent_bytes += len(piece)
                    self.on_upload(self, link.sent_bytes)
                    self._flows.wait()
                if self.delay_s:
                    time.sleep(self.delay_s)
                to.sendall(piece)
        except (OSError, ValueError):
            self._end(link)
        else:
            with contextlib.suppress(OSError):
                to.shutdown(socket.SHUT_WR)
            if source is link.server:
                self._end(link)

    def _end(self, link: _Link) -> None:
        with self._lock:
            self._links.discard(link)
        link.reset()


@contextlib.contextmanager
def proxy_to(port: int, host: str = "127.0.0.1") -> Iterator[Proxy]:
    proxy = Proxy(port, host)
    try:
        yield proxy
    finally:
        proxy.close()
