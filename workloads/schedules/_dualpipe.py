"""The order that DualPipe and DualPipeV share: two streams of microbatches meet on a rank and overlap.

Source: DeepSeek-V3, arXiv:2412.19437, section 3.2.1, and github.com/deepseek-ai/DualPipe, whose count of steps this
is. On a rank, stream 0 is the one that starts on the nearest end of the pipeline, and stream 1 the other one.
"""

from collections import Counter, deque

from workloads.schedule import Action


def overlapped_order(stages: tuple[int, int], *, inward: int, depth: int, main: int) -> tuple[Action, ...]:
    """The order of a rank that is `inward` ranks from the nearest end of `depth` ranks, with `main` main steps.

    `stages` are those on which the rank computes stream 0 and stream 1. A stream's backwards count microbatches
    in one go, whole or split; a W belongs to the earliest I that has none yet.

    >>> print(*overlapped_order((0, 3), inward=0, depth=1, main=1))
    0F0 3F0 0F1 3B0 (3F1;0B0) 3B1 0I1 0W1
    """
    counts: Counter[str] = Counter()
    split: deque[Action] = deque()

    def numbered(kind: str, stream: int) -> Action:
        """The next action of a kind on a stream."""
        if kind == "W":
            stage, _, microbatch, _ = split.popleft()
            return Action(stage, "W", microbatch)
        phase = f"forward {stream}" if kind == "F" else f"backward {stream}"
        action = Action(stages[stream], kind, counts[phase])
        counts[phase] += 1
        if kind == "I":
            split.append(action)
        return action

    singles = ([numbered(*one) for one in step] for step in _steps(inward, depth, main))
    return tuple(step[0] if len(step) == 1 else Action.pair(*step) for step in singles)


Step = list[tuple[str, int]]


def _steps(inward: int, depth: int, main: int) -> list[Step]:
    """Kinds and streams in order; a step of two overlaps them, except for the first one of the innermost rank."""
    outer = depth - inward - 1
    f0, f1, b0, b1, i0, i1 = ((kind, stream) for kind in "FBI" for stream in (0, 1))
    closing = [("B" if step <= inward else "I", 1 - step % 2) for step in range(2 * (inward + 1))]
    weights: Step = [("W", 0)]
    first: list[Step] = [[f0, b1]] if outer else [[f0], [b1]]
    return [
        *[[f0]] * (2 * outer),
        *[[f0], [f1]] * (inward + 1),
        *[[i1], weights, [f1]] * outer,
        *first,
        [f1, b0],
        *[[f0, b1], [f1, b0]] * (main - 1),
        *[[b1], [f1, b0]] * outer,
        *([backward] for backward in closing),
        *[weights, [i0]] * outer,
        *[weights] * (inward + 1),
    ]
