"""Layers as short sequences of modules, and the tasks of their forward pass on one rank.

Forward, a Llama layer is: norm, [enter], query-key-value product, rotary embedding, attention core, product,
[leave], residual; norm, [enter], gate and up in one product, activation, product, [leave], residual.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Literal, NamedTuple, Self, TypeGuard

from workloads.attention import Attention
from workloads.microbatch import Microbatch
from workloads.modules import (
    EAGER,
    ONE_KERNEL,
    Boundary,
    Channels,
    Lookup,
    Loss,
    Matmul,
    Module,
    Pointwise,
    Split,
    Traffic,
)
from workloads.ops import Compute, Op
from workloads.recompute import Target
from workloads.transformer import Transformer


@dataclass(frozen=True, slots=True)
class Layer:
    """A unit of the model: the embedding, one transformer layer, or the head."""

    kind: Literal["embedding", "layer", "head"]
    modules: tuple[Module, ...]

    @property
    def parameters(self) -> float:
        """Parameters on this rank."""
        return sum(module.parameters for module in self.modules)

    @property
    def used(self) -> float:
        """Parameters that this rank reads for it: its own, and the tied embedding of a head that has none."""
        borrowed = (each.weights for each in self.modules if isinstance(each, Matmul) and not each.owned)
        return self.parameters + sum(borrowed)

    @property
    def gradients(self) -> list[float]:
        """Parameters of its modules in the order in which their gradients become ready."""
        return [module.parameters for module in reversed(self.modules) if module.parameters]

    @property
    def narrow_weights(self) -> float:
        """Elements of the weights that are multiplied in the precision's own format for GEMMs."""
        return sum(module.weights for module in self.modules if isinstance(module, Matmul) and module.narrow)

    @property
    def logits(self) -> float:
        """Logits per token on this rank."""
        return sum(loss.vocab for loss in self.losses)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The head's loss; none of other layers."""
        return tuple(module for module in self.modules if isinstance(module, Loss))

    def saved(self, microbatch: Microbatch, targets: Sequence[Target] = ()) -> dict[str, float]:
        """Bytes that each module keeps from forward to backward; the loss is accounted with the logits.

        Of what is recomputed only the first input is kept. Where nothing in a stretch keeps one (a rotary embedding),
        that input is as large as the output, which stands for it.
        """
        kept = {each.name: each.saved_input(microbatch) + each.saved_inner(microbatch) for each in self.modules}
        for stretch in stretches(self, targets):
            inside = [each for each in stretch.modules if each.saved_input(microbatch)]
            for each in inside:
                kept[each.name] = each.saved_input(microbatch) * (1.0 if each is inside[0] else stretch.kept(each))
            if stretch.drops_output and inside:
                user = self.modules[stretch.user]
                kept[user.name] -= user.saved_input(microbatch)
        return kept

    def split(self, split: Split) -> "Layer":
        """The part of one rank under a tensor split, with `overlap` in pieces where a product follows or precedes."""
        modules = [module.split(split) for module in self.modules]
        for index, module in enumerate(modules) if split.overlap else ():
            if isinstance(module, Boundary):
                near = index + 1 if module.direction == "enter" else index - 1
                pieces = split.degree if isinstance(modules[near], Matmul) else 1
                modules[index] = dataclasses.replace(module, pieces=pieces)
        return Layer(self.kind, tuple(modules))

    def pruned(self) -> Self:
        """The modules before its last product: all that its own gradients need."""
        last = max((index for index, each in enumerate(self.modules) if isinstance(each, Matmul)), default=0)
        return dataclasses.replace(self, modules=self.modules[:last])

    def eager(self) -> Self:
        """The same without kernel fusion."""
        modules = tuple(each.eager() if isinstance(each, Pointwise) else each for each in self.modules)
        return dataclasses.replace(self, modules=modules)


class Stretch(NamedTuple):
    """Neighbouring modules of a layer that are recomputed; `user` is the index of the module that uses their output."""

    modules: tuple[Module, ...]
    user: int
    drops_output: bool
    halved: tuple[str, ...] = ()

    def kept(self, module: Module) -> float:
        """The share of a later module's input that is not computed again: half of what a halved one makes."""
        before = self.modules[self.modules.index(module) - 1]
        return 0.5 if before.name in self.halved else 0.0


def stretches(layer: Layer, targets: Sequence[Target]) -> Iterator[Stretch]:
    """Where a layer has what is to be recomputed; neighbours are one stretch, as one needs what the other drops."""
    drops = {name: target.drops_output for target in targets for name in target.modules}
    halved = tuple(name for target in targets for name in target.halved)
    marked = [(index, module) for index, module in enumerate(layer.modules) if module.name in drops]
    for _, found in groupby(enumerate(marked), key=lambda each: each[1][0] - each[0]):
        run = [each for _, each in found]
        after = range(run[-1][0] + 1, len(layer.modules))
        user = next(index for index in after if not isinstance(layer.modules[index], Boundary))
        yield Stretch(tuple(module for _, module in run), user, drops[run[-1][1].name], halved)


Part = Literal["forward", "again", "input", "weight"]


class Task(NamedTuple):
    """An op of a layer before it has its place in a block.

    `data` names the ops of the layer whose output it uses; "" is what the neighbouring layer hands over.
    `part` tells forward work, its repetition, input gradients and weight gradients apart. `uses` are the parameters it
    reads, `completes` those whose gradient is ready after it.
    """

    op: Op
    data: tuple[str, ...]
    part: Part = "forward"
    uses: float = 0
    completes: float = 0


def forward(layer: Layer, microbatch: Microbatch) -> list[Task]:
    """The forward tasks of a layer, each fed by the one before."""
    return list(_chain(layer.modules, microbatch, ("",)))


def _chain(modules: Sequence[Module], microbatch: Microbatch, flow: tuple[str, ...]) -> Iterator[Task]:
    """Forward tasks of modules in a row, the first one fed by `flow`.

    Of a gather in pieces, a product waits for the first, and what uses the product for all; of a scatter in pieces, all
    but the last start with the product before it.
    """
    beside: tuple[str, ...] = ()
    for module, following in zip_longest(modules, modules[1:]):
        ops = module.forward(microbatch)
        if isinstance(module, Boundary):
            ops, rest = module.cut(ops)
            rest = rest if module.direction == "enter" else ()
            yield from (Task(op, flow) for op in (*ops, *rest))
            flow, beside = _names(ops) or flow, _names(rest)
            continue
        early = following.cut(following.forward(microbatch))[1] if _leaves(following) else ()
        for number, op in enumerate(ops, 1):
            yield from (Task(each, flow) for each in early if number == len(ops))
            yield Task(op, flow, uses=module.parameters)
            flow = (op.name,)
        flow, beside = (*flow, *beside), ()


def _names(ops: Iterable[Op]) -> tuple[str, ...]:
    """Names of ops."""
    return tuple(op.name for op in ops)


def _leaves(module: Module | None) -> TypeGuard[Boundary]:
    """Whether a tensor region ends here."""
    return isinstance(module, Boundary) and module.direction == "leave"


def again(layer: Layer, stretch: Stretch, microbatch: Microbatch) -> Iterator[Task]:
    """The forward of a stretch once more, from the input that it kept, and what its user had kept of its output."""
    modules = [each.half() if each.name in stretch.halved else each for each in stretch.modules]
    repeated = list(_chain(modules, microbatch, ()))
    flow = _names(task.op for task in repeated[-1:])
    for op in layer.modules[stretch.user].converted(microbatch) if stretch.drops_output else ():
        repeated.append(Task(op, flow))
        flow = (op.name,)
    for op, data, _, uses, _ in repeated:
        renamed = dataclasses.replace(op, name=f"recompute.{op.name}")
        new = dataclasses.replace(renamed, recompute=True) if isinstance(renamed, Compute) else renamed
        yield Task(new, tuple(f"recompute.{name}" for name in data), "again", uses=uses)


def transformer_layer(model: Transformer, attention: str = "flash") -> Layer:
    """Attention and feed-forward network of one layer, unsplit, with an implementation of the attention core.

    >>> from workloads import models
    >>> layer = transformer_layer(models.build("llama3_8b"))
    >>> [module.name for module in layer.modules if isinstance(module, Matmul)], layer.parameters
    (['qkv', 'proj', 'gate_up', 'down'], 218112000)
    """
    return Layer("layer", (*_attention(model, attention), *_feed_forward(model)))


def embedding(model: Transformer) -> Layer:
    """Token embedding, and learned positions where the model has them."""
    h = model.hidden
    positions = Pointwise("positions", "sequence", Traffic(2 * h, h, h, h), weights=model.positions * h)
    modules = (
        Lookup("lookup", model.vocab, h),
        Boundary("leave", h, "leave"),
        *((positions,) if model.positions else ()),
        *((_dropout(h, "dropout"),) if model.dropout else ()),
    )
    return Layer("embedding", modules)


def head(model: Transformer, *, owned: bool = True, fused_loss: bool = False) -> Layer:
    """Final norm, logits and loss; `owned=False` where the weight is the embedding's on the same rank.

    Assumes that logits are never computed in a narrow format, as in Megatron-LM and Transformer Engine.
    """
    outputs = (Channels(model.vocab, model.vocab),)
    logits = Matmul("logits", outputs, model.hidden, "column", owned=owned, narrow=False)
    modules = (
        _norm(model, "norm"),
        Boundary("enter", model.hidden, "enter"),
        logits,
        Loss("loss", model.vocab, fused=fused_loss),
    )
    return Layer("head", modules)


def _attention(model: Transformer, implementation: str) -> Iterable[Module]:
    """Norm, query-key-value projection, attention core, output projection, residual."""
    h, d = model.hidden, model.head_dim
    query = Channels(model.heads * d, model.heads)
    pair = Channels(2 * model.kv_heads * d, model.kv_heads)
    width = model.qkv_width
    yield _norm(model, "norm1")
    yield Boundary("enter1", h, "enter")
    yield Matmul("qkv", (query, pair), h, "column", model.bias)
    unfused = ONE_KERNEL if model.positions else EAGER["rotary"]
    traffic = Traffic(width, width, width, width)
    yield Pointwise("qkv_bias" if model.positions else "rope", "tensor", traffic, unfused=unfused)
    yield Attention("attention", model.heads, model.kv_heads, d, model.mask, implementation, model.dropout)
    yield Matmul("proj", (Channels(h, h),), model.heads * d, "row", model.bias)
    yield Boundary("leave1", h, "leave")
    yield _residual(model, "residual1")


def _feed_forward(model: Transformer) -> Iterable[Module]:
    """Norm, projection up (gate and up as one GEMM), activation, projection down, residual."""
    h, ffn, up = model.hidden, model.ffn, model.up_width
    traffic = Traffic(2 * ffn, ffn, 3 * ffn, 2 * ffn) if model.gated else Traffic(ffn, ffn, 3 * ffn, ffn)
    yield _norm(model, "norm2")
    yield Boundary("enter2", h, "enter")
    yield Matmul("gate_up" if model.gated else "up", (Channels(up, ffn),), h, "column", model.bias)
    unfused = EAGER["gate"] if model.gated else ONE_KERNEL
    yield Pointwise("activation", "tensor", traffic, kept=up, kind="activation", unfused=unfused)
    yield Matmul("down", (Channels(h, h),), ffn, "row", model.bias)
    yield Boundary("leave2", h, "leave")
    yield _residual(model, "residual2")


def _norm(model: Transformer, name: str) -> Pointwise:
    """Forward reads and writes 2h bytes each at 2 bytes an element; backward reads 4h and writes 2h."""
    h = model.hidden
    traffic = Traffic(h, h, 2 * h, h)
    unfused = EAGER.get(model.norm, ONE_KERNEL)
    return Pointwise(name, "sequence", traffic, kept=h, weights=model.norm_parameters(), kind="norm", unfused=unfused)


def _residual(model: Transformer, name: str) -> Pointwise:
    """Forward adds two tensors; backward adds the branch's gradient to the main one. With dropout of the branch first.

    That takes 2h more bytes forward and 10h backward in a layer's two residuals, and keeps a mask of a byte a channel.
    """
    h = model.hidden
    traffic, dropout = Traffic(2 * h, h, 2 * h, h), Traffic(2 * h, 1.5 * h, 3.5 * h, 2 * h)
    return Pointwise(name, "sequence", dropout if model.dropout else traffic, masks=h if model.dropout else 0)


def _dropout(h: int, name: str) -> Pointwise:
    """A dropout by itself: reads and writes a tensor, and a mask of a byte a channel."""
    return Pointwise(name, "sequence", Traffic(h, 1.5 * h, 1.5 * h, h), masks=h, kind="dropout")
