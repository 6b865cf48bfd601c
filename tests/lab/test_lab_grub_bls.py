"""GRUB where the distribution's entries are BLS files (Fedora, RHEL): our entries stand beside them in custom.cfg."""

from pathlib import Path

import pytest
from lab.fakebox import DEFAULT_RELEASE, USABLE, WHY_NOT, fake_kernel, running_box
from lab.grubtext import READS_CUSTOM, TAKES_NEXT_ENTRY
from lab.machines import QUICK

from bisector.lab.physical import PhysicalMachine

pytestmark = pytest.mark.skipif(not USABLE, reason=WHY_NOT)

# What matters of a grub.cfg by Fedora's grub2-mkconfig.
FEDORA = f"""\
if [ -f ${{config_directory}}/grubenv ]; then
  load_env -f ${{config_directory}}/grubenv
elif [ -s $prefix/grubenv ]; then
  load_env
fi
{TAKES_NEXT_ENTRY}insmod blscfg
blscfg
{READS_CUSTOM}"""
ENTRY = f"title Fedora Linux\nversion {DEFAULT_RELEASE}\nlinux /vmlinuz-{DEFAULT_RELEASE}\n"


@pytest.mark.parametrize("folder", ["boot/grub2", "boot/efi/EFI/redhat"])
def test_a_kernel_is_booted_once_beside_bls_entries_and_none_of_them_is_touched(tmp_path: Path, folder: str) -> None:
    image, saved = fake_kernel(tmp_path, 1), f"0123456789abcdef0123456789abcdef-{DEFAULT_RELEASE}"
    with running_box(tmp_path / "box", grub=folder, grub_cfg=FEDORA) as box:
        box.editenv("set", f"saved_entry={saved}")
        entry = box.root / "boot/loader/entries" / f"{saved}.conf"
        entry.parent.mkdir(parents=True)
        entry.write_text(ENTRY)
        machine = PhysicalMachine(box.config(), tmp_path / "hunt", session="hunt", limits=QUICK)
        record = machine.boot(image, console=tmp_path / "console.log", on_progress=lambda _: None)
        assert record.release == image.release
        assert box.boots[1:] == [f"reboot: {DEFAULT_RELEASE}", f"reboot: {image.release}"]
        machine.release()
        assert box.release == DEFAULT_RELEASE
        assert box.environment == {"saved_entry": saved}
        assert [path.read_text() for path in entry.parent.iterdir()] == [ENTRY]
        assert (box.root / folder / "grub.cfg").read_text() == FEDORA
