from pathlib import Path

import pytest

from bisector.lab.console import READY, ConsoleFile, ConsoleText, Fault

PANIC = """\
[    0.512345] Run /init as init process
[    0.523456] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100
[    0.524567] CPU: 0 PID: 1 Comm: init Not tainted 6.1.0 #1
[    0.525678] Call Trace:
[    0.526789]  dump_stack_lvl+0x34/0x48
"""

OOPS = """\
[   12.000000] BUG: kernel NULL pointer dereference, address: 0000000000000008
[   12.000001] #PF: supervisor read access in kernel mode
[   12.000002] Oops: 0000 [#1] PREEMPT
[   12.000003] RIP: 0010:do_anonymous_page+0x5a/0x2b0
"""


def read(text: str) -> ConsoleText:
    console = ConsoleText()
    console.feed(text.encode())
    return console


def test_a_panic_is_recognised_and_its_first_line_decides() -> None:
    fault = read(PANIC).fault
    assert fault is not None
    assert fault.fault is Fault.PANIC
    assert "Attempted to kill init" in fault.lines[0]
    assert fault.lines[-1].endswith("dump_stack_lvl+0x34/0x48")


def test_an_oops_is_recognised_and_keeps_its_first_line_when_a_panic_follows() -> None:
    console = read(OOPS)
    assert console.fault is not None
    assert console.fault.fault is Fault.OOPS
    console.feed(b"[   12.1] Kernel panic - not syncing: Fatal exception\n")
    assert console.fault.fault is Fault.PANIC
    assert "NULL pointer" in console.fault.lines[0]


@pytest.mark.parametrize(
    "line",
    [
        "general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1] SMP",
        "kernel BUG at mm/memory.c:4123!",
        "Kernel BUG at 0xffffffff81ae4e71 [verbose debug info unavailable]",
        "BUG: Bad page state in process page_test  pfn:01234",
        "BUG: KASAN: use-after-free in vma_merge+0x1/0x2",
        "BUG: scheduling while atomic: swapper/0/1/0x00000002",
        "divide error: 0000 [#1] PREEMPT SMP",
        "Unable to handle kernel paging request at virtual address ffff",
    ],
)
def test_other_faults_of_a_kernel_count_as_oopses(line: str) -> None:
    fault = read(f"[ 1.0] {line}\n").fault
    assert fault is not None
    assert fault.fault is Fault.OOPS


@pytest.mark.parametrize(
    "line",
    [
        "Kernel command line: console=ttyS0 panic=-1 oops=panic nokaslr",
        "WARNING: CPU: 0 PID: 1 at kernel/sched/core.c:1 foo+0x1/0x2",
        "BUG: sleeping function called from invalid context at mm/slab.h:1",
        "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [page_test:77]",
        "rcu: INFO: rcu_sched self-detected stall on CPU",
        "debug: the bug in the debugger",
        "ACPI: some Firmware Bug: ignored",
    ],
)
def test_what_a_healthy_or_merely_starved_kernel_says_is_no_fault(line: str) -> None:
    assert read(f"[ 1.0] {line}\n").fault is None


def test_a_stall_is_remembered_and_shown_when_the_boot_hangs() -> None:
    console = read("[ 1.0] watchdog: BUG: soft lockup - CPU#0 stuck for 26s!\n" + "noise\n" * 100)
    assert "soft lockup" in console.last_lines[0]


def test_text_cut_anywhere_is_read_like_text_in_one_piece() -> None:
    console = ConsoleText()
    for byte in PANIC.replace("\n", "\r\n").encode():
        console.feed(bytes([byte]))
    assert console.fault == read(PANIC).fault


def test_a_last_line_without_an_end_counts_once_nothing_more_comes() -> None:
    console = read("[ 1.0] Kernel panic - not syncing: VFS")
    assert console.fault is None
    console.end()
    assert console.fault is not None


def test_terminal_escapes_and_foreign_bytes_do_not_hide_a_panic() -> None:
    console = ConsoleText()
    console.feed(b"\x1bc\x1b[2J\xff\xfe\x1b[1m[ 1.0] Kernel panic - not syncing: VFS\x1b[0m\n")
    assert console.fault is not None
    assert console.fault.lines == ("��[ 1.0] Kernel panic - not syncing: VFS",)


def test_endless_output_is_kept_within_bounds() -> None:
    console = read("x" * 100_000)
    console.feed(b"line\n" * 10_000 + b"Oops: 1\n" + b"trace\n" * 10_000)
    assert len(console.last_lines) == 40
    assert console.fault is not None
    assert len(console.fault.lines) == 40


def test_a_console_file_may_be_renamed_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "console.part"
    follower = ConsoleFile(path)
    with path.open("wb", buffering=0) as writer:
        writer.write(f"{READY}\n".encode())
        assert follower.poll().ready
        path.rename(tmp_path / "console.log")
        writer.write(PANIC.encode())
        assert follower.finish().fault is not None
