"""Does the other end still live? A question over the connection itself, now and then, with a time limit.

TCP notices a peer whose network is gone, and only on the first hop: behind a jump host, or where the machine's kernel
still acknowledges what no process reads any more, a connection stays open for ever. paramiko's keepalives ask for no
answer and so notice nothing (paramiko 2463). This one does; its cost to the machine is one small packet that sshd
answers by itself.
"""

import threading
from typing import Any


def keep_pulse(connection: Any, every_s: float) -> None:
    """Ask every `every_s` seconds for as long as the connection is open; end it if half as long brings no answer."""
    threading.Thread(target=_beat, args=(connection, every_s), name="pulse", daemon=True).start()


def _beat(connection: Any, every_s: float) -> None:
    transport = connection.transport
    # The transport is a thread that ends with the connection: there is nothing to be told, and nobody lingers.
    while True:
        transport.join(every_s)
        if not transport.is_alive():
            return
        limit = threading.Timer(every_s / 2, connection.client.close)
        limit.daemon = True
        limit.start()
        try:
            # Any answer will do; servers that do not know the word refuse it, which is one (RFC 4254, section 4).
            transport.global_request("keepalive@openssh.com", wait=True)
        except Exception:  # noqa: BLE001 - whoever uses the connection is told by their own call that it is lost
            return
        finally:
            limit.cancel()
