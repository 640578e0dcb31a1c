"""What a Gantt chart shows: lanes, the parts of frames that are seen on them, and where in a lane things lie."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas

from simulator.plots import Framed, _recompute
from simulator.plots._actions import AXES, STAGED
from simulator.plots._ranks import by_coordinate, by_number

_TOP, _HEIGHT = -0.42, 0.84
"""Of a lane, the distance between lanes being 1; without anything beneath the bars they have _ALONE of it."""
_ALONE = 0.76
_STRIP, _STRIPS, _MEMORY = 0.1, 0.32, 0.22


@dataclass(frozen=True, slots=True)
class View:
    """The lanes' ranks, top first, the visible rows of the frames, and the limits in seconds.

    All rows have a `lane`; those of `actions` a `shade`, from 0 (a rank's first stage) to 1 (its last), and a `half`:
    1 above and 2 beneath for the two of an overlapped pair, 0 for the rest. `transfers` has a row for each rank that
    takes part: a message is beneath its sender and its receiver. `recompute` are the parts of bars that are so,
    `whole` if those of an action are in one piece at its start. `end` is where the step ends; `directions` is how
    many chains of stages there are; `room` whether lanes leave some for memory beneath.
    """

    ranks: tuple[int, ...]
    labels: tuple[str, ...]
    actions: pandas.DataFrame
    transfers: pandas.DataFrame
    waits: pandas.DataFrame
    recompute: pandas.DataFrame
    whole: bool
    limits: tuple[float, float]
    end: float
    stages: int
    directions: int
    alike: tuple[int, ...]
    room: bool

    @classmethod
    def of(
        cls, result: Framed, ranks: str | Sequence[int], window: tuple[float, float] | None, *, room: bool = False
    ) -> "View":
        """What the chosen ranks do within the window."""
        chosen = _chosen(result, ranks)
        everywhere, all_actions = result.to_frame("spans"), result.to_frame("actions")
        spans = on_lanes(everywhere, chosen)
        actions = _halved(_shaded(on_lanes(all_actions, chosen)))
        end = max([result.step_time, *actions["end_seconds"]])
        limits = _limits(end, window)
        recompute = _recompute.stretches(spans)
        whole = _recompute.too_fine(recompute, limits)
        if whole:
            recompute = _recompute.gathered(recompute, actions)
        return cls(
            ranks=chosen,
            labels=tuple(_label(result, rank) for rank in chosen),
            actions=visible(actions, limits, "start_seconds"),
            transfers=visible(_transfers(everywhere, spans), limits, "began_seconds"),
            waits=visible(_waits(actions), limits, "start_seconds"),
            recompute=visible(recompute, limits, "start_seconds"),
            whole=whole,
            limits=limits,
            end=end,
            stages=max(actions["stages"].tolist(), default=1),
            directions=directions(all_actions),
            alike=tuple(sorted(set(actions["ranks_in_class"].tolist()))),
            room=room,
        )

    @property
    def axes(self) -> list[str]:
        """The axes whose communication is seen, the innermost first."""
        order = list(AXES)
        seen = self.transfers["axis"].unique().tolist()
        return sorted(seen, key=lambda axis: (order.index(axis) if axis in order else len(order), axis))

    @property
    def idle(self) -> bool:
        """Whether a lane has a gap that is neither action nor wait."""
        start, end = self.limits
        rows = pandas.concat([self.actions, self.waits])[["lane", "left", "right"]]
        last = min(end, self.end)
        edges = pandas.DataFrame({"lane": range(len(self.ranks)), "left": last, "right": last})
        rows = pandas.concat([rows, edges]).sort_values(["lane", "left"], ignore_index=True)
        reached = rows.groupby("lane")["right"].cummax().groupby(rows["lane"]).shift(fill_value=start)
        return bool((rows["left"] - reached > 1e-6 * (end - start)).any())

    @property
    def bar_height(self) -> float:
        """Height of an action's bar, the distance between lanes being 1."""
        beneath = self._strips + (_MEMORY if self.room else 0.0)
        return _HEIGHT - beneath if beneath else _ALONE

    @property
    def _strips(self) -> float:
        return min(_STRIP * len(self.axes), _STRIPS)

    def bar(self, lane: int, half: int = 0) -> tuple[float, float]:
        """Top and height of a lane's bars, or of one half of them."""
        height = self.bar_height / 2 if half else self.bar_height
        return lane + _TOP + (height if half == 2 else 0.0), height

    def strip(self, lane: int, axis: str) -> tuple[float, float]:
        """Top and height of the thin bars of an axis, beneath those of the actions."""
        height = self._strips / len(self.axes)
        return lane + _TOP + self.bar_height + (self.axes.index(axis) + 0.1) * height, 0.8 * height

    def memory(self, lane: int) -> tuple[float, float]:
        """Top and height of the strip of memory, beneath everything else of a lane."""
        return lane + _TOP + _HEIGHT - 0.9 * _MEMORY, 0.9 * _MEMORY


def _chosen(result: Framed, ranks: str | Sequence[int]) -> tuple[int, ...]:
    if not isinstance(ranks, str):
        return by_number(result, ranks)
    return tuple(alike[0] for alike in by_coordinate(result, ranks).values())


def _label(result: Framed, rank: int) -> str:
    place = result.coordinates[rank].get("pp")
    return f"rank {rank}" if place in (None, rank) else f"pp {place} · rank {rank}"


def on_lanes(frame: pandas.DataFrame, ranks: tuple[int, ...]) -> pandas.DataFrame:
    """The rows of some ranks, with the `lane` of each."""
    lanes = {rank: lane for lane, rank in enumerate(ranks)}
    frame = frame[frame["rank"].isin(lanes)]
    return frame.assign(lane=frame["rank"].map(lanes))


def _shaded(actions: pandas.DataFrame) -> pandas.DataFrame:
    """With `shade`, where the action's stage lies among those of its rank, and `stages`, how many they are."""
    stages = actions["stage"].where(actions["action"].isin(STAGED)).astype(float).groupby(actions["rank"])
    count = stages.transform("nunique")
    shade = (stages.rank(method="dense") - 1) / (count - 1).clip(lower=1)
    return actions.assign(shade=shade.fillna(0.0), stages=count)


def _halved(actions: pandas.DataFrame) -> pandas.DataFrame:
    """With `half`: of two actions that overlap the forward is above."""
    if "overlapped" not in actions or not actions["overlapped"].any():
        return actions.assign(half=0)
    pairs = actions[actions["overlapped"].astype(bool)]
    pairs = pairs.assign(later=pairs["action"] != "F").sort_values("later", kind="stable")
    bars = pairs.groupby(["lane", "start_seconds", "end_seconds"])
    half = bars.cumcount() + 1
    half[bars["later"].transform("size") != 2] = 0
    return actions.assign(half=half.reindex(actions.index, fill_value=0))


def directions(actions: pandas.DataFrame) -> int:
    """How many chains of stages microbatches enter: a stage that is earlier than the one before it is not fed by that.

    >>> columns = ["stage", "action", "microbatch", "start_seconds", "end_seconds"]
    >>> directions(pandas.DataFrame([(0, "F", 0, 0.0, 1.0), (1, "F", 0, 1.0, 2.0)], columns=columns))
    1
    >>> directions(pandas.DataFrame([(0, "F", 0, 0.0, 1.0), (1, "F", 0, 0.0, 1.0)], columns=columns))
    2
    """
    forwards = actions[actions["action"] == "F"].groupby(["stage", "microbatch"], as_index=False)
    first = forwards.agg(start=("start_seconds", "min"), end=("end_seconds", "min"))
    pairs = first.merge(first.assign(stage=first["stage"] + 1), on=["stage", "microbatch"], suffixes=("", "_before"))
    slack = 1e-9 * max(actions["end_seconds"].tolist(), default=0.0)
    apart = pairs[pairs["start"] < pairs["end_before"] - slack]
    return 1 + int(apart["stage"].nunique())


def _limits(last: float, window: tuple[float, float] | None) -> tuple[float, float]:
    if window is None:
        return 0.0, last
    start, end = map(float, window)
    if not (math.isfinite(start) and math.isfinite(end) and max(start, 0) < min(end, last)):
        raise ValueError(
            f"window=({start:g}, {end:g}) shows nothing: give (start, end) in seconds within 0 to {last:g}"
        )
    return start, end


def _waits(actions: pandas.DataFrame) -> pandas.DataFrame:
    """The gaps before actions, from the step's start on: until the last one, a rank without one waits for something."""
    actions = actions.sort_values(["lane", "start_seconds"], ignore_index=True)
    reached = actions.groupby("lane")["end_seconds"].cummax().groupby(actions["lane"]).shift(fill_value=0.0)
    gaps = actions[["lane"]].assign(start_seconds=reached, end_seconds=actions["start_seconds"])
    return gaps[gaps["end_seconds"] > gaps["start_seconds"]]


def _transfers(spans: pandas.DataFrame, own: pandas.DataFrame) -> pandas.DataFrame:
    """Collectives and messages of the ranks on lanes; what a receive waited for ran when its send says."""
    sent = (spans["kind"] == "send") & (spans["message"] >= 0)
    sends = spans.loc[sent, ["message", "began_seconds", "end_seconds"]].drop_duplicates("message")
    received = own.loc[own["kind"] == "recv", ["lane", "axis", "message"]].merge(sends, on="message")
    columns = ["lane", "axis", "began_seconds", "end_seconds"]
    there = own.loc[(own["work"] != "compute") & (own["kind"] != "recv"), columns]
    return pandas.concat([there, received[columns]])


def visible(frame: pandas.DataFrame, limits: tuple[float, float], start: str) -> pandas.DataFrame:
    """The rows that take time within the limits, in order of start; `left` and `right` are what is seen of them."""
    begin, end = frame[start].astype(float), frame["end_seconds"].astype(float)
    frame = frame.assign(begin=begin, left=begin.clip(*limits), right=end.clip(*limits))
    return frame[frame["right"] > frame["left"]].sort_values("begin", kind="stable", ignore_index=True)
