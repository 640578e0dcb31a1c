"""Published schedules as others would make them: orders, and figures by the rules alone, without stepsim's engine."""

from fractions import Fraction

from workloads.schedule import Schedule

FEEDS = {"F": "F", "B": "B", "I": "B"}


def stage_factor(rule, place, count, first=0):
    """The multiplier of the stage at a place of a chain."""
    if rule == "ramp":
        return 1 + Fraction(place + first, count)
    return Fraction(rule.removeprefix("last")) if rule.startswith("last") and place == count - 1 else Fraction(1)


def replayed(schedule: Schedule, profile, first=0):
    """Figures by the rules: a rank runs its actions in order, each when the rank is free and its inputs are there."""
    virtual = len(set(schedule.weights)) // schedule.ranks
    times = {kind: Fraction(str(profile[name])) for kind, name in NAMES.items()}
    hop, mode, pair = Fraction(str(profile["hop"])), profile["mode"], Fraction(str(profile["pair_factor"] or 1))
    factor = {
        stage: stage_factor(profile["stages"], place, len(chain), first)
        for chain in schedule.chains
        for place, stage in enumerate(chain)
    }
    before, after, place = schedule.before, schedule.after, schedule.placement
    done, free = {}, [Fraction(0)] * schedule.ranks
    starts, ends, busy, at = [{} for _ in free], [{} for _ in free], [Fraction(0) for _ in free], [0 for _ in free]

    def inputs(action):
        for each in action.singles:
            feeder = {"F": before, "W": {}}.get(each.kind, after).get(each.stage)
            if feeder is not None:
                yield feeder, FEEDS[each.kind], each.microbatch

    def outputs(action):
        for each in action.singles:
            fed = {"F": after, "W": {}}.get(each.kind, before).get(each.stage)
            if fed is not None:
                yield fed

    moving = True
    while moving:
        moving = False
        for rank, order in schedule.orders.items():
            while at[rank] < len(order) and all(need in done for need in inputs(order[at[rank]])):
                action = order[at[rank]]
                start = free[rank]
                for need in inputs(action):
                    here = place[need[0]] == rank
                    ready = max(done[need], free[rank]) if mode == "recv_block" else done[need]
                    start = max(start, ready + (0 if here else hop))
                length = sum(times[each.kind] * factor[each.stage] / virtual for each in action.singles)
                length *= pair if action.parts else 1
                starts[rank][at[rank]], ends[rank][at[rank]] = start, start + length
                busy[rank] += length
                for each in action.singles:
                    done[each.stage, FEEDS.get(each.kind, "W"), each.microbatch] = start + length
                held = mode == "send_block" and any(place[fed] != rank for fed in outputs(action))
                free[rank] = start + length + (hop if held else 0)
                at[rank] += 1
                moving = True
    assert all(at[rank] == len(order) for rank, order in schedule.orders.items())
    makespan = max(max(each.values()) for each in ends) - min(min(each.values()) for each in starts)
    spans = [max(last.values()) - min(begun.values()) for begun, last in zip(starts, ends, strict=True)]
    return {
        "makespan": makespan,
        "max_rank_span": max(spans),
        "bubble_fraction": 1 - sum(busy) / (len(busy) * makespan),
        "span_bubble": max(span - each for span, each in zip(spans, busy, strict=True)),
        "busy_per_rank": busy,
        "peak_in_flight": [_peak(schedule.orders[rank], "BW") for rank in range(schedule.ranks)],
        "peak_in_flight_release_at_input": [_peak(schedule.orders[rank], "BI") for rank in range(schedule.ranks)],
    }


NAMES = {"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight"}


def _peak(order, release):
    held = most = 0
    for action in order:
        held += sum(each.kind == "F" for each in action.singles)
        most = max(most, held)
        held -= sum(each.kind in release for each in action.singles)
    return most
