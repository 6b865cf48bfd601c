"""Does the other end still live? A question over the connection itself, now and then, with a time limit.

TCP notices a peer whose network is gone, and only on the first hop: behind a jump host, or where the machine's kernel
still acknowledges what no process reads any more, a connection stays open for ever. paramiko's keepalives ask for no
answer and so notice nothing (paramiko 2463). This one does; its cost to the machine is one small packet that sshd
answers by itself.
"""

import threading
from typing import Any


class Pulse:
    """Ends a connection whose machine does not answer: at the latest after one and a half times `every_s`.

    With None it asks nothing.
    """

    def __init__(self, connection: Any, *, every_s: float | None) -> None:
        self._transport = connection.transport
        self._give_up = connection.client.close
        self._stopped = threading.Event()
        if every_s is not None:
            threading.Thread(target=self._beat, args=(every_s,), name="pulse", daemon=True).start()

    def stop(self) -> None:
        """No more questions; harmless at any moment."""
        self._stopped.set()

    def _beat(self, every_s: float) -> None:
        while not self._stopped.wait(every_s) and self._transport.is_active():
            limit = threading.Timer(every_s / 2, self._give_up)
            limit.daemon = True
            limit.start()
            try:
                # Any answer will do; servers that do not know the word refuse it, which is one (RFC 4254, section 4).
                self._transport.global_request("keepalive@openssh.com", wait=True)
            except Exception:  # noqa: BLE001 - whatever ended the connection, whoever uses it is told by their own call
                return
            finally:
                limit.cancel()
