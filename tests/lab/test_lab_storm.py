"""A machine on which something goes wrong at every boot, and never the same thing twice in a row."""

import os
import random
import threading
from pathlib import Path

import pytest
from lab.fakebox import DEFAULT_RELEASE, FakeBox, fake_kernel
from lab.machines import QUICK

from bisector.lab.physical import PhysicalMachine
from bisector.model.errors import KernelError, MachineError
from bisector.model.kernel import KernelImage

BOOTS = int(os.environ.get("BISECTOR_TEST_STORM", "6"))
SEEDS = [int(seed) for seed in os.environ.get("BISECTOR_TEST_STORM_SEEDS", "1").split()]
FAULTS = ("nothing", "deaf", "deafer", "lying power", "stale", "panic", "cut", "dropped", "refused", "lingers", "armed")


def strike(box: FakeBox, fault: str, image: KernelImage, folder: Path, chance: random.Random) -> None:
    box.deaf_to, box.stale, box.refuses_login_s, box.linger_s = set(), [], 0.0, 0.0
    match fault:
        case "deaf":
            box.deaf_to = {"reboot"}
        case "deafer":
            box.deaf_to = {"reboot", "forced"}
        case "lying power":
            box.deaf_to = {"reboot", "forced", "cut"}
        case "stale":
            stale = folder / "stale"
            stale.write_text(Path(image.path).read_text().replace(image.build_id, "ab" * 20))
            box.stale = [stale]
        case "panic":
            broken = folder / "broken"
            broken.write_text(Path(image.path).read_text().replace('"run"', '"panic"'))
            box.stale = [broken]
        case "cut":
            threading.Timer(chance.uniform(0.1, 1.5), box.order, ("cut",)).start()
        case "dropped":
            threading.Timer(chance.uniform(0.1, 1.5), box.drop_connections).start()
        case "refused":
            box.refuses_login_s = 0.5
        case "lingers":
            box.linger_s = 0.5
        case "armed":
            box.editenv("set", "next_entry=bisector-6.0-of-somebody-dead")


@pytest.mark.parametrize("seed", SEEDS)
def test_no_storm_makes_a_good_kernel_look_bad_or_another_kernel_look_like_it(
    box: FakeBox, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    config = box.config(shutdown_timeout_s=0.6, boot_timeout_s=4.0)
    machine = PhysicalMachine(config, tmp_path / "hunt", session="hunt", limits=QUICK)
    proven = 0
    order = [fault for _ in range(BOOTS) for fault in chance.sample(FAULTS, len(FAULTS))][:BOOTS]
    for number, fault in enumerate(order):
        image = fake_kernel(tmp_path, 1 + number % 90)
        strike(box, fault, image, tmp_path, chance)
        try:
            record = machine.boot(image, console=tmp_path / "console", on_progress=lambda _: None)
        except MachineError:
            continue
        except KernelError:
            # What came up was another kernel indeed, and was not taken for this one.
            assert fault in ("stale", "panic", "cut"), fault
            continue
        assert (record.release, record.build_id) == (image.release, image.build_id)
        proven += 1
    strike(box, "nothing", image, tmp_path, chance)
    machine.boot(image, console=tmp_path / "console", on_progress=lambda _: None)
    machine.release()
    assert proven >= BOOTS // 2
    assert box.release == DEFAULT_RELEASE
    assert box.environment == {}
    assert not box.leased
