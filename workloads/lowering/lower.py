"""The lowering itself: blocks and orders of a whole step."""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from workloads.lowering import accumulation, casts, host_copies
from workloads.lowering.bodies import Bodies, Ends, Weaver
from workloads.lowering.draft import RECV
from workloads.lowering.finish import closing_ops
from workloads.lowering.messages import Hops
from workloads.lowering.pairs import paired
from workloads.ops import Compute, Op
from workloads.program import Block, BlockKey, Program, Replay

if TYPE_CHECKING:
    from workloads.step import TrainingStep

ATTENTION = ("attention", "batched_gemm")
"""Kinds of kernels that compute attention scores."""


def lower(step: "TrainingStep") -> Program:
    """The program of a step.

    >>> from workloads import TrainingStep
    >>> step = TrainingStep("llama3_8b", plan="pp=4 dp=2,zero=1 tp=8", batch=16, sequence=8192)
    >>> program = lower(step)
    >>> [op.name for op in program.blocks[program.orders[0,][0].block].ops]
    ['parameters.0']
    """
    return _Lowering(step).program()


class _Lowering:
    """One step on its way to a program."""

    def __init__(self, step: "TrainingStep") -> None:
        self.step = step
        self.hops = Hops(step.schedule)
        self.opened = {stage: self._open(stage) for stage in range(len(step.stages))}
        self.bodies = Bodies(
            microbatch=step.rank_microbatch,
            weavers=self._weavers(),
            recompute=step.recompute,
            message_bytes=step.rank_microbatch.bytes(step.model.hidden) * step.settled_plan.share("message"),
            received=self._received(),
            p2p=step.schedule.p2p,
            pruned=step.software.pruned_recompute,
        )
        self.blocks: dict[BlockKey, Block] = {}
        self.interned: dict[Block, Block] = {}

    def program(self) -> Program:
        """Every rank's order, with the blocks that it replays."""
        step = self.step
        orders: dict[tuple[int, ...], tuple[Replay, ...]] = {
            (rank,): tuple(self._order(rank)) for rank in range(step.schedule.ranks)
        }
        return Program(
            mesh=step.settled_plan.mesh,
            blocks=self.blocks,
            orders=orders,
            model_flops=float(step.model.flops(step.tokens, step.convention, sequence=step.sequence)),
            recompute_flops=self._recompute_flops(orders),
            precision=step.precision,
            convention=step.convention,
            stack=step.software.name,
            graphs=step.software.graphs,
            tokens=step.tokens,
            memory=step.footprints(),
            warnings=step.warnings,
        )

    def _weavers(self) -> tuple[Weaver, ...]:
        """Conversions, every strategy, sharding before replication, then what is kept at the host."""
        share, transient = self.step.settled_plan.share("parameters"), self.step.has_transient_parameters
        strategies = (strategy.weave for strategy in self.step.settled_plan.inside_out)
        return (
            lambda draft: casts.weave(draft, transient=transient),
            lambda draft: accumulation.weave(draft, self.step.software),
            *strategies,
            lambda draft: host_copies.weave(self.step.offload, draft, share),
        )

    def _received(self) -> tuple[Op, ...]:
        """What follows every message that a stage receives."""
        step = self.step
        return tuple(
            dataclasses.replace(op, after=(RECV,))
            for strategy in step.settled_plan.strategies
            for op in strategy.received(step.rank_microbatch, step.model.hidden)
        )

    def _open(self, stage: int) -> tuple[Op, ...]:
        """What the step begins with on a stage; nothing where no optimizer left new parameters."""
        if not self.step.optimizer.steps:
            return ()
        parameters = self.step.stages[stage].parameters * self.step.settled_plan.share("parameters")
        strategies = self.step.settled_plan.strategies
        return tuple(
            op
            for each in strategies
            for op in each.open(stage, parameters, self.step.stages[stage].tensors, self.step.rank_microbatch)
        )

    def _order(self, rank: int) -> Iterator[Replay]:
        """Opening ops in the order of first use, the schedule's actions, the closing block."""
        order = self.step.schedule.orders[rank]
        stages = list(dict.fromkeys(single.stage for action in order for single in action.singles))
        for stage in stages:
            if self.opened[stage]:
                key = BlockKey(stage, "open")
                self.blocks[key] = self._intern(Block(self.opened[stage]))
                yield Replay(key, 0)
        actions = list(self._actions(rank))
        yield from actions
        ops = closing_ops(self.step, stages, self._last_compute(actions[-1]))
        if ops:
            key = BlockKey(stages[0], "optimizer")
            self.blocks[key] = self._intern(Block(ops))
            yield Replay(key, 0)

    def _actions(self, rank: int) -> Iterator[Replay]:
        """Expand a rank's actions into blocks, each in the variant of its place in the step.

        Backwards, whole or in parts, are numbered by what completes their gradients.
        """
        names = _variants(self.step.schedule.microbatches // len(self.step.schedule.chains))
        seen: Counter[tuple[int, str]] = Counter()
        for action in self.step.schedule.orders[rank]:
            keys: list[BlockKey] = []
            for stage, kind, *_ in action.singles:
                counted = stage, "W" if kind == "B" else kind
                keys.append(BlockKey(stage, kind, names[seen[counted]]))
                seen[counted] += 1
            first, *others = keys
            beside = (others[0], action.singles[1].microbatch) if others else (None, -1)
            key = first._replace(beside=beside[0])
            if key not in self.blocks:
                self.blocks[key] = self._block(key)
            yield Replay(key, action.microbatch, beside[1])

    def _block(self, key: BlockKey) -> Block:
        """The block of an action or a pair, with its messages."""
        if key.beside is not None:
            return self._intern(paired(self._block(key._replace(beside=None)), self._block(key.beside)))
        stage, kind, variant, _ = key
        names = self._opening(stage) if kind == "F" and variant in ("first", "only") else ()
        ends = Ends(self.hops.incoming(stage, kind), self.hops.outgoing(stage, kind), names)
        return self.bodies.block(self.step.stages[stage], kind, variant, ends)

    def _opening(self, stage: int) -> tuple[str, ...]:
        """The opening ops that a stage waits for: its own, or without overlap those of all stages of its rank."""
        ahead = all(strategy.opens_ahead for strategy in self.step.settled_plan.strategies)
        placement = self.step.schedule.placement
        stages = [stage] if ahead else [each for each, rank in enumerate(placement) if rank == placement[stage]]
        return tuple(op.name for each in stages for op in self.opened[each])

    def _last_compute(self, last: Replay) -> str:
        """The last kernel of a rank's actions."""
        ops = self.blocks[last.block].ops
        return next((op.name for op in reversed(ops) if isinstance(op, Compute)), "")

    def _recompute_flops(self, orders: Mapping[tuple[int, ...], tuple[Replay, ...]]) -> float:
        """FLOPs of the forward pass that all ranks repeat in the step, attention by the step's convention."""
        if self.step.recompute.mode == "none":
            return 0.0
        scale = self.step.model.attention_scale(self.step.convention, sequence=self.step.sequence)
        each = {key: sum(_repeated(op, scale) for op in block.ops) for key, block in self.blocks.items()}
        replicas = self.step.settled_plan.world_size // len(orders)
        return replicas * sum(each[replay.block] for order in orders.values() for replay in order)

    def _intern(self, block: Block) -> Block:
        """One object for equal blocks."""
        return self.interned.setdefault(block, block)


def _repeated(op: Op, scale: float) -> float:
    """FLOPs of an op that repeats what the forward pass computed; attention is scaled to the convention's count."""
    if not (isinstance(op, Compute) and op.recompute):
        return 0.0
    return op.flops * (scale if op.kind in ATTENTION else 1.0)


def _variants(microbatches: int) -> tuple[str, ...]:
    """The variant of each microbatch in turn."""
    return ("only",) if microbatches == 1 else ("first", *["middle"] * (microbatches - 2), "last")
