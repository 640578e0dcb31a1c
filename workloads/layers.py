"""Layers as short sequences of modules, and the tasks of their forward pass on one rank.

Forward, a Llama layer is: norm, [enter], query-key-value product, rotary embedding, attention core, product,
[leave], residual; norm, [enter], gate and up in one product, activation, product, [leave], residual.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from workloads.modules import (
    Attention,
    Boundary,
    Channels,
    Lookup,
    Loss,
    Matmul,
    Microbatch,
    Module,
    Pointwise,
    Split,
    Traffic,
)
from workloads.ops import Op
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
    def saved(self) -> float:
        """Elements per token kept from forward to backward; the loss is accounted with the logits."""
        return sum(module.saved for module in self.modules)

    @property
    def logits(self) -> float:
        """Logits per token on this rank."""
        return sum(module.vocab for module in self.modules if isinstance(module, Loss))

    def split(self, split: Split) -> "Layer":
        """The part of one rank under a tensor split."""
        return Layer(self.kind, tuple(module.split(split) for module in self.modules))


class Task(NamedTuple):
    """An op of a layer before it has its place in a block.

    `data` names the ops of the layer whose output it uses; "" is what the neighbouring layer hands over.
    `part` tells forward work, input gradients and weight gradients apart. `uses` are the parameters it reads,
    `completes` those whose gradient is ready after it.
    """

    op: Op
    data: tuple[str, ...]
    part: Literal["forward", "input", "weight"] = "forward"
    uses: float = 0
    completes: float = 0


def forward(layer: Layer, microbatch: Microbatch) -> list[Task]:
    """The forward tasks of a layer, each fed by the one before."""
    tasks: list[Task] = []
    flow: tuple[str, ...] = ("",)
    for module in layer.modules:
        for op in module.forward(microbatch):
            tasks.append(Task(op, flow, uses=module.parameters))
            flow = (op.name,)
    return tasks


def transformer_layer(model: Transformer) -> Layer:
    """Attention and feed-forward network of one layer, unsplit.

    >>> from workloads import models
    >>> layer = transformer_layer(models.build("llama3_8b"))
    >>> [module.name for module in layer.modules if isinstance(module, Matmul)], layer.parameters
    (['qkv', 'proj', 'gate_up', 'down'], 218112000)
    """
    return Layer("layer", (*_attention(model), *_feed_forward(model)))


def embedding(model: Transformer) -> Layer:
    """Token embedding, and learned positions where the model has them."""
    h = model.hidden
    positions = Pointwise("positions", "sequence", Traffic(2 * h, h, h, h), weights=model.positions * h)
    modules = (Lookup("lookup", model.vocab, h), Boundary("leave", h, "leave"), positions)
    return Layer("embedding", modules if model.positions else modules[:2])


def head(model: Transformer, *, owned: bool = True) -> Layer:
    """Final norm, logits and loss; `owned=False` where the weight is the embedding's on the same rank."""
    logits = Matmul("logits", (Channels(model.vocab, model.vocab),), model.hidden, "column", owned=owned)
    modules = (_norm(model, "norm"), Boundary("enter", model.hidden, "enter"), logits, Loss("loss", model.vocab))
    return Layer("head", modules)


def _attention(model: Transformer) -> Iterable[Module]:
    """Norm, query-key-value projection, attention core, output projection, residual."""
    h, d = model.hidden, model.head_dim
    query = Channels(model.heads * d, model.heads)
    pair = Channels(2 * model.kv_heads * d, model.kv_heads)
    width = model.qkv_width
    yield _norm(model, "norm1")
    yield Boundary("enter1", h, "enter")
    yield Matmul("qkv", (query, pair), h, "column", model.bias)
    yield Pointwise("qkv_bias" if model.positions else "rope", "tensor", Traffic(width, width, width, width))
    yield Attention("attention", model.heads, model.kv_heads, d)
    yield Matmul("proj", (Channels(h, h),), model.heads * d, "row", model.bias)
    yield Boundary("leave1", h, "leave")
    yield _residual(h, "residual1")


def _feed_forward(model: Transformer) -> Iterable[Module]:
    """Norm, projection up (gate and up as one GEMM), activation, projection down, residual."""
    h, ffn, up = model.hidden, model.ffn, model.up_width
    traffic = Traffic(2 * ffn, ffn, 3 * ffn, 2 * ffn) if model.gated else Traffic(ffn, ffn, 3 * ffn, ffn)
    yield _norm(model, "norm2")
    yield Boundary("enter2", h, "enter")
    yield Matmul("gate_up" if model.gated else "up", (Channels(up, ffn),), h, "column", model.bias)
    yield Pointwise("activation", "tensor", traffic, kept=up)
    yield Matmul("down", (Channels(h, h),), ffn, "row", model.bias)
    yield Boundary("leave2", h, "leave")
    yield _residual(h, "residual2")


def _norm(model: Transformer, name: str) -> Pointwise:
    """Forward reads and writes 2h bytes each at 2 bytes an element; backward reads 4h and writes 2h."""
    h = model.hidden
    return Pointwise(name, "sequence", Traffic(h, h, 2 * h, h), kept=h, weights=model.norm_parameters())


def _residual(h: int, name: str) -> Pointwise:
    """Forward adds two tensors; backward adds the branch's gradient to the main one."""
    return Pointwise(name, "sequence", Traffic(2 * h, h, 2 * h, h))
