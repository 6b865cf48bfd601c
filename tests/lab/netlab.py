"""A lab behind a jump host: fake boxes in network namespaces of their own, reached through it and no other way.

    this computer -- jump -- box1
                          \\- box2 ...

Cutting a box off takes its link down: nobody is told, packets just go nowhere.
"""

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.fakebox import FakeBox, running_box
from lab.machines import Sshd

from bisector.recipe.machines import SshMachine


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@dataclass
class NetLab:
    """Boxes behind their jump host."""

    jump: Sshd
    namespace: str
    boxes: list[FakeBox]
    links: dict[str, str]

    def entry(self, box: FakeBox, **changes: object) -> SshMachine:
        """The box's entry, as seen from here."""
        target = self.jump.target
        jump = {
            "host": target.host,
            "port": target.port,
            "user": target.user,
            "key": str(target.key),
            "host_key": target.host_keys,
        }
        return box.config(jump=jump, **changes)

    def cut_off(self, box: FakeBox) -> None:
        """For good."""
        ip("-n", self.namespace, "link", "set", self.links[box.name], "down")


@contextmanager
def net_lab(folder: Path, count: int) -> Iterator[NetLab]:
    """A jump host and `count` boxes, switched on."""
    mark = secrets.token_hex(3)
    # Two networks of our own in 10/8, by chance: tests run beside each other.
    subnet = f"10.{100 + secrets.randbelow(100)}.{secrets.randbelow(250)}"
    inner = f"10.{200 + secrets.randbelow(50)}.{secrets.randbelow(250)}"
    with ExitStack() as stack:
        jump_space = stack.enter_context(namespace(f"jump{mark}"))
        ip("link", "add", f"to{mark}", "type", "veth", "peer", "name", "out", "netns", jump_space)
        stack.callback(subprocess.run, ["ip", "link", "del", f"to{mark}"], capture_output=True, check=False)
        ip("addr", "add", f"{subnet}.1/24", "dev", f"to{mark}")
        ip("link", "set", f"to{mark}", "up")
        ip("-n", jump_space, "addr", "add", f"{subnet}.2/24", "dev", "out")
        ip("-n", jump_space, "link", "set", "out", "up")
        ip("-n", jump_space, "link", "add", "lab", "type", "bridge")
        ip("-n", jump_space, "addr", "add", f"{inner}.1/24", "dev", "lab")
        ip("-n", jump_space, "link", "set", "lab", "up")
        boxes, links = [], {}
        for number in range(1, count + 1):
            space = stack.enter_context(namespace(f"box{number}{mark}"))
            link, address = f"box{number}", f"{inner}.{10 + number}"
            ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", link, "netns", jump_space)
            ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", jump_space, "link", "set", link, "master", "lab", "up")
            box = running_box(folder / f"box{number}", f"box{number}", namespace=space, address=address)
            boxes.append(stack.enter_context(box))
            links[f"box{number}"] = link
        jump = Sshd(folder / "jump", namespace=jump_space, address=f"{subnet}.2")
        stack.callback(jump.stop)
        jump.start()
        yield NetLab(jump, jump_space, boxes, links)


@contextmanager
def namespace(name: str) -> Iterator[str]:
    ip("netns", "add", name)
    try:
        ip("-n", name, "link", "set", "lo", "up")
        yield name
    finally:
        ip("netns", "del", name)


def can_be_had() -> bool:
    """Are we root where namespaces can be made?"""
    if os.getuid() != 0:
        return False
    name = f"try{secrets.token_hex(3)}"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if done.returncode == 0:
        ip("netns", "del", name)
    return done.returncode == 0
