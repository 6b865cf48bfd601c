import time
from pathlib import Path

import pytest
from lab.machines import running, some_seconds, wait_until

from bisector.lab.command import run_here
from bisector.lab.power import power_cycle
from bisector.model.errors import MachineError
from bisector.recipe.machines import SshMachine


def machine(**power: object) -> SshMachine:
    return SshMachine.model_validate(
        {
            "kind": "ssh",
            "name": "box1",
            "host": "192.0.2.7",
            "key": "/k",
            "host_key": ("ssh-ed25519 AAAA",),
            "boot": {"method": "grub"},
            "power": {"pause_s": 0.05, **power},
        }
    )


def cycle(**power: object) -> None:
    entry = machine(**power)
    assert entry.power is not None
    power_cycle(entry, entry.power)


def test_a_switch_that_fails_twice_and_then_works_has_worked(tmp_path: Path) -> None:
    log = tmp_path / "log"
    cycle(cycle=f'echo "$BISECTOR_MACHINE $BISECTOR_HOST" >>{log}; [ "$(wc -l <{log})" -ge 3 ]')
    assert log.read_text() == "box1 192.0.2.7\n" * 3


def test_off_and_on_are_two_commands_with_a_pause_between(tmp_path: Path) -> None:
    log = tmp_path / "log"
    started = time.monotonic()
    cycle(off=f"echo off >>{log}", on=f"echo on >>{log}", pause_s=0.3)
    assert log.read_text().split() == ["off", "on"]
    assert time.monotonic() - started >= 0.3


def test_a_switch_that_keeps_failing_names_the_machine_and_its_words_and_no_password() -> None:
    with pytest.raises(MachineError, match=r"box1: the command power.cycle ended with 7") as caught:
        cycle(cycle="PASSWORD=hunter2; echo 'Error: Unable to establish LAN session' >&2; exit 7")
    assert "LAN session" in caught.value.details
    assert "hunter2" not in str(caught.value)


def test_a_command_that_does_not_end_is_killed_with_its_children() -> None:
    span = some_seconds()
    with pytest.raises(MachineError, match="did not end within 0 s and was killed"):
        run_here("it", f"sleep {span} & sleep {span}; true", variables={}, timeout_s=0.3)
    wait_until(lambda: not running(f"\0{span}\0"))


def test_a_command_leaves_no_child_behind_and_reads_nothing_from_us() -> None:
    span = some_seconds()
    assert run_here("it", f"cat; sleep {span} >/dev/null 2>&1 & echo done", variables={}, timeout_s=10) == "done\n"
    wait_until(lambda: not running(f"\0{span}\0"))
