import pytest
from story import IDS, Story, good_runs, image, recipe, run_of, running

from bisector.model.events import BuildStarted, KernelBuilt, MachineTrouble, SessionPaused, SessionResumed
from bisector.report.counts import count_up, method_of


def test_kernels_are_counted_once_however_often_they_are_booted():
    counts = count_up(running().state)
    # 0, 9, 2, 4, 7 and 3 were booted, 6 does not compile; 5 is only being built.
    assert counts.kernels == 7
    assert (counts.built, counts.from_cache, counts.build_failures) == (5, 1, 1)
    assert (counts.boots, counts.failed_boots, counts.runs) == (8, 2, 29)


def test_a_kernel_built_ahead_and_never_booted_was_not_looked_at():
    assert count_up(Story().build(3, ahead=True).state).kernels == 0


def test_machine_time_is_from_the_order_to_boot_to_the_end():
    counts = count_up(Story().build(0).look(0, good_runs()).state)
    assert counts.machine_s == 9.0 + 4 * 10.0


def test_the_machine_waits_only_while_a_build_runs_and_no_look_does():
    story = Story().build(0).start_boot(0, runs=1).booted(0)
    story.tell(BuildStarted(commit=IDS[3], ahead=True, reason=""))
    story.run(0, 1, run_of(page_test=43.7)).end_look(0)
    story.tell(KernelBuilt(commit=IDS[3], image=image(3)), 30.0)
    # 40 s for the first kernel; of the 40 s for the second the machine was busy for 10.
    assert count_up(story.state).waited_s == pytest.approx(40.0 + 30.0)


def test_a_night_during_which_the_controller_was_dead_is_not_building_time():
    story = Story().tell(BuildStarted(commit=IDS[0], ahead=False, reason=""))
    story.tell(KernelBuilt(commit=IDS[0], image=image(0)), 30_000.0)
    assert count_up(story.state).builder_s == 40.0


def test_a_boot_that_was_lost_is_no_failed_boot():
    story = Story().build(0).start_boot(0)
    story.tell(MachineTrouble(machine="lab-01", commit=IDS[0], boot=1, reason="no answer", resolution=""), 100.0)
    counts = count_up(story.state)
    assert (counts.boots, counts.failed_boots, counts.machine_s) == (0, 0, 100.0)


def test_pausing_and_resuming_count_nothing():
    story = Story().build(0).look(0, good_runs())
    before = count_up(story.state)
    story.tell(SessionPaused(reason="lunch", resolution="")).tell(SessionResumed(program="p"), 3600.0)
    assert count_up(story.state) == before


def test_the_three_questions_are_answered_from_what_was_measured():
    method = method_of(running().state, recipe())
    assert method.boots_per_commit == (1, 2)
    assert method.runs_per_boot == (4, 4)
    assert (method.cpu, method.counts_instructions) == (3, False)


def test_nothing_measured_has_no_figures():
    assert method_of(Story().state, recipe()).boots_per_commit is None
