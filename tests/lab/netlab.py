"""A lab behind a jump host: machines in network namespaces of their own, reached through it and no other way.

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
from typing import Any

from lab.fakebox import FakeBox, running_box
from lab.machines import Sshd

from bisector.recipe.machines import SshMachine


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@dataclass
class Place:
    """Where one machine is: its namespace, its address there, and the jump host's end of its link."""

    namespace: str
    address: str
    link: str


@dataclass
class Network:
    """A jump host with places for machines behind it. `outer` is the way there from this computer."""

    jump: Sshd
    namespace: str
    outer: str
    places: list[Place]

    @property
    def jump_entry(self) -> dict[str, Any]:
        """The jump host, as a machine's entry names it."""
        target = self.jump.target
        return {
            "host": target.host,
            "port": target.port,
            "user": target.user,
            "key": str(target.key),
            "host_key": target.host_keys,
        }


@dataclass
class NetLab:
    """Fake boxes behind their jump host."""

    network: Network
    boxes: list[FakeBox]

    def entry(self, box: FakeBox, **changes: object) -> SshMachine:
        """The box's entry, as seen from here."""
        return box.config(jump=self.network.jump_entry, **changes)

    def cut_off(self, box: FakeBox) -> None:
        """For good."""
        place = self.network.places[self.boxes.index(box)]
        ip("-n", self.network.namespace, "link", "set", place.link, "down")


@contextmanager
def net_lab(folder: Path, count: int) -> Iterator[NetLab]:
    """A jump host and `count` boxes, switched on."""
    with jump_network(folder, count) as network, ExitStack() as stack:
        boxes = []
        for number, place in enumerate(network.places, 1):
            name = f"box{number}"
            box = running_box(folder / name, name, namespace=place.namespace, address=place.address)
            boxes.append(stack.enter_context(box))
        yield NetLab(network, boxes)


@contextmanager
def jump_network(folder: Path, count: int) -> Iterator[Network]:
    """A jump host that answers, and `count` places behind it."""
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
        places = []
        for number in range(1, count + 1):
            space = stack.enter_context(namespace(f"box{number}{mark}"))
            link, address = f"box{number}", f"{inner}.{10 + number}"
            ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", link, "netns", jump_space)
            ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", jump_space, "link", "set", link, "master", "lab", "up")
            places.append(Place(space, address, link))
        jump = Sshd(folder / "jump", namespace=jump_space, address=f"{subnet}.2")
        stack.callback(jump.stop)
        jump.start()
        yield Network(jump, jump_space, f"to{mark}", places)


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
