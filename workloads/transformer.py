"""A decoder-only transformer: its dimensions, its exact parameter count, the FLOPs of training it."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from workloads import flops
from workloads.checks import check_switch, check_whole, is_number, nearest_divisors
from workloads.mask import Mask
from workloads.plugins import unknown

CONVENTIONS = tuple(flops.CONVENTIONS)
NORMS = ("layernorm", "rmsnorm")
LARGEST = {
    "layers": 10_000,
    "hidden": 10_000_000,
    "heads": 1_000_000,
    "kv_heads": 1_000_000,
    "head_dim": 1_000_000,
    "ffn": 100_000_000,
    "vocab": 1_000_000_000,
    "positions": 1_000_000_000,
    "window": 1_000_000_000,
}
MAY_BE_ZERO = ("vocab", "positions", "window")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """Dimensions of a dense decoder with attention and feed-forward network in every layer.

    Weights of a layer, as (output, input): query (heads * head_dim, hidden), key and value
    (kv_heads * head_dim, hidden) each, output (hidden, heads * head_dim), up (ffn, hidden), down
    (hidden, ffn) and with `gated` (SwiGLU) a gate (ffn, hidden); two norms a layer and one before the head.
    `rmsnorm` has a weight, `layernorm` a weight and a bias; `bias` adds one to every linear layer but the
    head. `positions` is the length of a table of learned positions, 0 for rotary ones. With `tied` the
    head multiplies by the embedding table. `vocab=0` leaves out embedding, positions, last norm and head: all
    that remains are equal layers.

    What a query attends to, in every layer: no later key if `causal`; in a sliding `window` at most so many keys,
    itself included (0: the whole sequence); of the blocks of scores within this mask the share `block_density`
    (block-sparse attention; 1: all). `dropout` follows the attention scores, attention and the feed-forward
    network, as Megatron-LM trains GPT.

    >>> tiny = Transformer(
    ...     name="tiny", layers=2, hidden=8, heads=4, kv_heads=2, head_dim=2, ffn=16, vocab=10, gated=True
    ... )
    >>> tiny.parameters(), tiny.layer_parameters(), tiny.replace(tied=True).parameters()
    (1352, 592, 1272)
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated: bool = True
    tied: bool = False
    norm: str = "rmsnorm"
    bias: bool = False
    positions: int = 0
    causal: bool = True
    window: int = 0
    block_density: float = 1.0
    dropout: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name):
            raise ValueError(f"name={self.name!r} is no name; it is a text such as the one that builds the model")
        for field, largest in LARGEST.items():
            check_whole(field, getattr(self, field), 0 if field in MAY_BE_ZERO else 1, largest)
        check_switch(gated=self.gated, tied=self.tied, bias=self.bias, causal=self.causal, dropout=self.dropout)
        density = self.block_density
        if not is_number(density) or not 0 < density <= 1:
            raise ValueError(f"block_density={density!r} is no share of blocks; it is above 0 and at most 1")
        if self.norm not in NORMS:
            raise ValueError(unknown("norm", str(self.norm), NORMS))
        if self.heads % self.kv_heads:
            raise ValueError(
                f"heads={self.heads} is not divisible by kv_heads={self.kv_heads}; "
                f"nearest kv_heads: {nearest_divisors(self.heads, self.kv_heads)}"
            )

    def replace(self, /, **changes: Any) -> Self:
        """The same model with other dimensions.

        >>> from workloads import models
        >>> models.build("llama3_8b").replace(layers=16).layers
        16
        """
        fields = [field.name for field in dataclasses.fields(self)]
        for key in changes:
            if key not in fields:
                raise ValueError(unknown("field of a model", key, fields))
        return dataclasses.replace(self, **changes)

    def parameters(self) -> int:
        """All parameters: embedding, layers, last norm, head."""
        layers = self.layers * self.layer_parameters()
        return self.embedding_parameters() + layers + self.final_norm_parameters() + self.head_parameters()

    def layer_parameters(self) -> int:
        """Parameters of one layer: weights, biases, two norms."""
        biases = self.qkv_width + self.hidden + self.up_width + self.hidden if self.bias else 0
        return self.layer_matmul_parameters() + biases + 2 * self.norm_parameters()

    def layer_matmul_parameters(self) -> int:
        """Weights of one layer that multiply every token: attention projections and feed-forward network."""
        attention = self.hidden * (self.qkv_width + self.heads * self.head_dim)
        return attention + self.hidden * (self.up_width + self.ffn)

    def multiplied_parameters(self) -> int:
        """Weights that multiply every token: of all layers and of the head, also of a tied one."""
        return self.layers * self.layer_matmul_parameters() + self.vocab * self.hidden

    def norm_parameters(self) -> int:
        """Parameters of one norm."""
        return self.hidden * (2 if self.norm == "layernorm" else 1)

    def final_norm_parameters(self) -> int:
        """Parameters of the norm before the head; 0 without a head."""
        return self.norm_parameters() if self.vocab else 0

    def embedding_parameters(self) -> int:
        """Token embeddings and learned positions; 0 without a vocabulary."""
        return (self.vocab + self.positions) * self.hidden if self.vocab else 0

    def head_parameters(self) -> int:
        """Weights of the head that are its own: 0 if it shares the embedding's."""
        return 0 if self.tied else self.vocab * self.hidden

    @property
    def qkv_width(self) -> int:
        """Output width of query, key and value together."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def up_width(self) -> int:
        """Output width of the projections into the feed-forward network: gate and up, or up alone."""
        return self.ffn * (2 if self.gated else 1)

    @property
    def mask(self) -> Mask:
        """Which keys a query attends to."""
        return Mask(self.causal, self.window, self.block_density)

    def counted_keys(self, sequence: int, convention: str = "causal") -> float:
        """Keys per query that a FLOPs convention counts, on average: those of its `mask`, or what it takes for them."""
        self.check_sequence(sequence)
        counted = {
            "attended": self.mask.keys(sequence),
            "reach": self.mask.span(sequence) * self.block_density,
            "square": sequence,
            "half": sequence / 2 if self.causal else sequence,
        }
        return counted[flops.find(convention).keys]

    def flops(self, tokens: int, convention: str = "causal", *, sequence: int) -> int:
        """FLOPs of training on `tokens` tokens in sequences of `sequence` tokens, forward and backward.

        Per token 6 x the counted weights + 12 x layers x heads x head_dim x the counted keys per query. What each
        convention counts, and who reports it: `workloads.flops.CONVENTIONS`. Recomputation counts in none.

        Assumes one mask per sequence: documents packed into one sequence are not masked from each other.

        >>> from workloads import models
        >>> llama = models.build("llama2_7b")
        >>> [round(llama.flops(4 * 8192, convention, sequence=8192) / 1e12, 1) for convention in ("full", "causal")]
        [1721.2, 1510.1]
        """
        return 3 * self.forward_flops(tokens, convention, sequence=sequence)

    def forward_flops(self, tokens: int, convention: str = "causal", *, sequence: int) -> int:
        """FLOPs of the forward pass alone: a third of `flops`, in whole FLOPs."""
        check_whole("tokens", tokens, 0, 10**18)
        counts_all = flops.find(convention).weights == "all"
        weights = self.parameters() if counts_all else self.multiplied_parameters()
        width, keys = self.layers * self.heads * self.head_dim, self.counted_keys(sequence, convention)
        return 2 * weights * tokens + flops.attention_flops(width, keys, tokens)

    def attention_scale(self, convention: str, *, sequence: int) -> float:
        """What a convention counts of attention, relative to the work there is."""
        return self.counted_keys(sequence, convention) / self.mask.keys(sequence)

    def check_sequence(self, sequence: int) -> None:
        """Refuse a sequence that is no positive whole number of tokens, or longer than the learned positions.

        >>> from workloads import models
        >>> models.build("gpt3_175b").check_sequence(4096)
        Traceback (most recent call last):
        ValueError: sequence=4096 is longer than the 2048 learned positions of gpt3_175b; nearest: 2048
        """
        check_whole("sequence", sequence, 1, 10**12)
        if self.vocab and 0 < self.positions < sequence:
            raise ValueError(
                f"sequence={sequence} is longer than the {self.positions} learned positions of {self.name}; "
                f"nearest: {self.positions}"
            )
