"""A fake box that has a /lib/modules of its own, and images with modules that depmod and mkinitramfs understand."""

import subprocess
from dataclasses import replace
from pathlib import Path

from lab.fakebox import FakeBox, Loader

from bisector.kernel.modules import pack
from bisector.kernel.store import _sha256 as sha256_of
from bisector.model.kernel import KernelImage, KernelModules

# This computer may have no /lib/modules to mount anything on: one is laid over /usr/lib, in the box only.
_MOUNTS = """
if [ ! -d /lib/modules ]; then
  mkdir -p /mnt/over
  mount -t tmpfs over /mnt/over
  mkdir /mnt/over/upper /mnt/over/work
  mount -t overlay over -o lowerdir=/usr/lib,upperdir=/mnt/over/upper,workdir=/mnt/over/work /usr/lib
  mkdir /usr/lib/modules
fi
mount --bind /mnt/modules /lib/modules
"""

_HIDE = """
for place in /usr/sbin /usr/bin; do
  for tool in mkinitramfs dracut mkinitcpio; do
    [ ! -e "$place/$tool" ] || mount --bind /dev/null "$place/$tool"
  done
done
"""

_CONFIG = "CONFIG_MODULES=y\nCONFIG_RD_GZIP=y\n"
_INFO = 'const char info[] __attribute__((used, section(".modinfo"))) = "name=%s\\0vermagic=%s SMP";\n'
_MODULES = {
    "drivers/virtio/virtio": 'const char name[] __attribute__((used, section("__ksymtab_strings"))) = "virtio_find";\n',
    "drivers/block/virtio_blk": "int virtio_find(int); int probe(int minor) { return virtio_find(minor); }\n",
}


def module_box(root: Path, *, tools: bool = True, loader: Loader | None = None, size: str = "") -> FakeBox:
    """Not yet switched on. `tools` says whether it has those of this computer; `size` limits its /lib/modules."""
    box = FakeBox(root, loader=loader)
    (root / "modules").mkdir()
    if size:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "bisector-test", str(root / "modules")], check=True
        )
    with (root / "mounts").open("a") as mounts:
        mounts.write(_MOUNTS + ("" if tools else _HIDE))
    return box


def with_modules(image: KernelImage, folder: Path, *, size: int = 0) -> KernelImage:
    """The image with two real modules, of which one needs the other, and `size` more bytes that do not pack."""
    tree = folder / f"tree-{image.release}"
    for place, source in _MODULES.items():
        module = tree / "kernel" / f"{place}.ko"
        module.parent.mkdir(parents=True)
        compiler = ["gcc", "-c", "-x", "c", "-", "-o", str(module)]
        info = _INFO % (module.stem, image.release)
        subprocess.run(compiler, input=info + source, text=True, check=True)
    (tree / "modules.order").write_text("kernel/drivers/virtio/virtio.ko\nkernel/drivers/block/virtio_blk.ko\n")
    (tree / "modules.builtin").touch()
    (tree / "config").write_text(_CONFIG)
    if size:
        with Path("/dev/urandom").open("rb") as noise:
            (tree / "kernel/noise").write_bytes(noise.read(size))
    return replace(image, modules=packed(tree, folder / f"modules-{image.release}.tar.gz"))


def packed(tree: Path, target: Path) -> KernelModules:
    """A folder as the builder hands it on."""
    unpacked_bytes = pack(tree, target)
    return KernelModules(path=str(target), sha256=sha256_of(target), unpacked_bytes=unpacked_bytes)
