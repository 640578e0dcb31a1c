"""Overlapped pairs: the ops of two actions in turns, so that one computes while the other communicates."""

import dataclasses
from collections.abc import Sequence

from workloads.ops import Op
from workloads.program import Block

PREFIX = "beside."


def paired(first: Block, second: Block) -> Block:
    """Both blocks as one, changing over wherever one has started to communicate.

    Assumes that kernels of the two run in turns, not side by side on parts of the accelerator.

    >>> from workloads.ops import Collective, Compute
    >>> move = Collective(name="move", stream="tp", kind="all_reduce", axes=("tp",), bytes=1.0)
    >>> one, other = Compute(name="one", kind="gemm"), Compute(name="other", kind="gemm", after=("move",))
    >>> [op.name for op in paired(Block((one, move, other)), Block((one, move, other))).ops]
    ['one', 'move', 'beside.one', 'beside.move', 'other', 'beside.other']
    """
    taken = {op.name for op in first.ops}
    names = {op.name: PREFIX + op.name for op in second.ops if op.name in taken}
    renamed = [_renamed(op, names) for op in second.ops]
    return Block(tuple(_in_turns(_stretches(first.ops), _stretches(renamed))), frozenset(op.name for op in renamed))


def _renamed(op: Op, names: dict[str, str]) -> Op:
    """An op under another name, waiting for ops under theirs."""
    after = tuple(names.get(name, name) for name in op.after)
    return dataclasses.replace(op, name=names.get(op.name, op.name), after=after)


def _stretches(ops: Sequence[Op]) -> list[list[Op]]:
    """Ops cut behind everything that is not in the compute stream."""
    found: list[list[Op]] = [[]]
    for op in ops:
        found[-1].append(op)
        if op.stream != "compute":
            found.append([])
    return [each for each in found if each]


def _in_turns(first: list[list[Op]], second: list[list[Op]]) -> list[Op]:
    """The stretches of both, evenly mixed, the first one's ahead."""
    marked = [
        (number / len(each), each is second, part) for each in (first, second) for number, part in enumerate(each)
    ]
    return [op for *_, part in sorted(marked, key=lambda mark: mark[:2]) for op in part]
