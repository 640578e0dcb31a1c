"""Which layers a pipeline stage holds: the default split, layout text, and the layers themselves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import NamedTuple

from workloads.layers import Layer, embedding, head, transformer_layer
from workloads.schedule import Schedule
from workloads.strategy import Strategy
from workloads.transformer import Transformer


@dataclass(frozen=True, slots=True)
class Shape:
    """What a stage holds; equal shapes do equal work. `borrows`: its head has the embedding's weights of its rank."""

    embedding: bool
    layers: int
    head: bool
    borrows: bool = False


def layers_per_stage(
    layers: int, stages: int, layout: str | None = None, ends: tuple[bool, bool] = (False, False)
) -> tuple[int, ...]:
    """Layers of each stage, from layout text or by the default split.

    Default: ceil(layers / stages) each, the surplus taken alternately from the last and the first stage, which
    also hold head and embedding; once these are empty, one each from the stages next to them. `ends` says whether
    embedding and head count as a layer each.

    >>> layout_text(layers_per_stage(126, 16)), layout_text(layers_per_stage(126, 128))
    ('7-8x14-7', '0-1x126-0')
    >>> layers_per_stage(8, 4, "1-3x2-1")
    (1, 3, 3, 1)
    """
    if layout is None:
        first, *others = _default(layers + sum(ends), stages)
        counts = (first - ends[0], *others)
        counts = (*counts[:-1], counts[-1] - ends[1])
        if min(counts) < 0:
            raise ValueError(
                f"layers={layers} and an end that counts as a layer are too few for {stages} stages; at most {layers} "
                "stages"
            )
        return counts
    counts = read_layout(layout)
    if len(counts) != stages or sum(counts) != layers:
        raise ValueError(
            f"layers={layout} gives {sum(counts)} layers to {len(counts)} stages; "
            f"the model has {layers} layers and the schedule {stages} stages"
        )
    return counts


def read_layout(layout: str) -> tuple[int, ...]:
    """Layers of each stage from text such as 7-8x14-7.

    >>> read_layout("1-3x2-1")
    (1, 3, 3, 1)
    """
    counts: list[int] = []
    for part in layout.split("-"):
        count, times, repeat = part.partition("x")
        if not count.isdecimal() or (times and not repeat.isdecimal()) or int(repeat or 1) > 10_000:
            raise ValueError(f"{part!r} in layers={layout} is neither a count nor count×repeat such as 8x14")
        counts += [int(count)] * int(repeat or 1)
    return tuple(counts)


def layout_text(counts: Iterable[int]) -> str:
    """Layout text with repeats as `8x14`."""
    runs = ((count, len(list(run))) for count, run in groupby(counts))
    return "-".join(str(count) if length == 1 else f"{count}x{length}" for count, length in runs)


class Style(NamedTuple):
    """How layers are implemented: the attention core, and whether elementwise kernels and the loss are fused."""

    attention: str = "flash"
    fused: bool = True
    fused_loss: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage on one rank: its shape and its sharded layers."""

    shape: Shape
    layers: tuple[Layer, ...]

    @property
    def parameters(self) -> float:
        """Parameters on one rank, before data parallel strategies take their shares."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def tensors(self) -> int:
        """How many tensors its parameters are, taking those of a module as one."""
        return sum(len(layer.gradients) for layer in self.layers)


def shapes(model: Transformer, counts: Sequence[int], schedule: Schedule) -> tuple[Shape, ...]:
    """The shape of every stage: embedding first in a chain, head last; a model without vocabulary has neither.

    A tied head borrows the weights of an embedding on its rank.
    """
    firsts = {chain[0] for chain in schedule.chains if model.vocab}
    lasts = {chain[-1] for chain in schedule.chains if model.vocab}
    homes = {schedule.placement[stage] for stage in firsts if model.tied}
    return tuple(
        Shape(stage in firsts, count, stage in lasts, stage in lasts and schedule.placement[stage] in homes)
        for stage, count in enumerate(counts)
    )


def build_stages(
    model: Transformer, counts: Sequence[int], schedule: Schedule, strategies: Iterable[Strategy], style: Style
) -> tuple[Stage, ...]:
    """Every stage with its layers as one rank computes them; stages of equal shape are one object."""
    shard = _Sharding(model, tuple(strategies), style).layers
    each = shapes(model, counts, schedule)
    built = {shape: Stage(shape, shard(shape)) for shape in dict.fromkeys(each)}
    return tuple(built[shape] for shape in each)


class _Sharding:
    """Shards each kind of layer once."""

    def __init__(self, model: Transformer, strategies: tuple[Strategy, ...], style: Style) -> None:
        self.model = model
        self.strategies = strategies
        self.style = style
        self.layer = self._shard(transformer_layer(model, style.attention))

    def layers(self, shape: Shape) -> tuple[Layer, ...]:
        """The layers of a stage."""
        first = (self._shard(embedding(self.model)),) if shape.embedding else ()
        last = (self._shard(self._head(owned=not shape.borrows)),) if shape.head else ()
        return (*first, *[self.layer] * shape.layers, *last)

    def _head(self, *, owned: bool) -> Layer:
        return head(self.model, owned=owned, fused_loss=self.style.fused_loss)

    def _shard(self, layer: Layer) -> Layer:
        layer = layer if self.style.fused else layer.eager()
        for strategy in self.strategies:
            layer = strategy.shard(layer)
        return layer


def _default(layers: int, stages: int) -> tuple[int, ...]:
    if layers < stages - 2:
        raise ValueError(
            f"layers={layers} are too few for {stages} stages: only the first and the last stage may be without a "
            f"layer, so at most {layers + 2} stages"
        )
    each = -(-layers // stages)
    counts = [each] * stages
    for stage in _givers(stages, each, each * stages - layers):
        counts[stage] -= 1
    return tuple(counts)


def _givers(stages: int, each: int, surplus: int) -> list[int]:
    """The stages that give up a layer, in turn: last and first until they are empty, then one each inwards."""
    ends = [stage for _ in range(each) for stage in (stages - 1, 0)] if stages > 1 else []
    inwards = chain.from_iterable((stages - 1 - depth, depth) for depth in range(1, stages // 2))
    return [*ends, *inwards, stages // 2][:surplus]
