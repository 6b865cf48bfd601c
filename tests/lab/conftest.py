"""Fixtures of the lab's tests: a running sshd, and shells on it."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.controllers import Make, controllers
from lab.diskbed import default_among, others_than_default
from lab.fakebox import USABLE, WHY_NOT, FakeBox, fake_kernel, running_box
from lab.machines import QUICK, SSHD, Sshd

from bisector.lab.ssh import Shell
from bisector.model.kernel import KernelImage


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    if SSHD is None:
        pytest.skip("needs sshd (Debian: openssh-server)")
    server = Sshd(tmp_path / "sshd")
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def shell(sshd: Sshd) -> Iterator[Shell]:
    shell = Shell(sshd.target, limits=QUICK)
    try:
        yield shell
    finally:
        shell.close()


@pytest.fixture(params=["distribution", "busybox"])
def any_shell(request: pytest.FixtureRequest, sshd: Sshd, tmp_path: Path) -> Iterator[Shell]:
    """The same, and once more on a machine that has nothing but busybox."""
    if request.param == "busybox":
        busybox = shutil.which("busybox")
        if busybox is None:
            pytest.skip("needs busybox (Debian: busybox-static)")
        tools = tmp_path / "tools"
        tools.mkdir()
        for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
            (tools / applet).symlink_to(busybox)
        # The account's login shell is not the machine's business here, but its start-up files may call bash.
        (tools / "bash").symlink_to(shutil.which("bash") or "/bin/sh")
        sshd.stop()
        sshd.path = str(tools)
        sshd.start()
    shell = Shell(sshd.target, limits=QUICK)
    try:
        yield shell
    finally:
        shell.close()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FakeBox]:
    if not USABLE:
        pytest.skip(WHY_NOT)
    with running_box(tmp_path / "box") as box:
        yield box


@pytest.fixture(scope="module")
def default(kernels: dict[str, KernelImage]) -> KernelImage:
    """The own kernel of a machine with a disk, among the `kernels` that a module has."""
    return default_among(kernels)


@pytest.fixture(scope="module")
def images(kernels: dict[str, KernelImage]) -> list[KernelImage]:
    """Those that are booted there."""
    return others_than_default(kernels)


@pytest.fixture
def make(box: FakeBox, tmp_path: Path) -> Iterator[Make]:
    with controllers(box, tmp_path) as make:
        yield make


@pytest.fixture
def image(tmp_path: Path) -> KernelImage:
    return fake_kernel(tmp_path, 1)
