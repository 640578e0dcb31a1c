"""Schedules by themselves: a long one replayed, a large one searched."""

from simulator import replay_schedule
from workloads import schedules


def test_1f1b_of_64_ranks_and_512_microbatches(report):
    schedule = schedules.build("one_f_one_b", stages=64, microbatches=512)
    best = min((replay_schedule(schedule) for _ in range(5)), key=lambda result: sum(result.timings.values()))
    assert best.makespan == (512 + 64 - 1) * 3
    report("replay of 1F1B, p=64, m=512", f"{best.timings['replay']:.2f} s", "0.5 s")
    report("  with what comes before it", f"{sum(best.timings.values()):.2f} s", "")


def test_zb_auto_of_16_ranks_and_64_microbatches(seconds, report):
    report("zb_auto, p=16, m=64", f"{seconds(lambda: schedules.build('zb_auto', 16, 64)):.1f} s", "5 s")
