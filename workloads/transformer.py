"""A decoder-only transformer: its dimensions, its exact parameter count, the FLOPs of training it."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from workloads.checks import check_switch, check_whole, nearest_divisors
from workloads.plugins import unknown

CONVENTIONS = ("causal", "full", "palm", "palm_causal")
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
}
MAY_BE_ZERO = ("vocab", "positions")


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

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name):
            raise ValueError(f"name={self.name!r} is no name; it is a text such as the one that builds the model")
        for field, largest in LARGEST.items():
            check_whole(field, getattr(self, field), 0 if field in MAY_BE_ZERO else 1, largest)
        check_switch(gated=self.gated, tied=self.tied, bias=self.bias)
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

    def flops(self, tokens: int, convention: str = "causal", *, sequence: int) -> int:
        """FLOPs of training on `tokens` tokens in sequences of `sequence` tokens, forward and backward.

        A product of weights counts 6 FLOPs per weight and token (forward 2, input and weight gradient 2 each).

        - `full`: 6 x (weights of the layers and the head) + 12 x layers x heads x head_dim x sequence, per
          token. The embedding look-up, norms and biases count nothing.
        - `causal`: as `full` with half of the attention term, the half that a causal mask leaves.
        - `palm`: 6 x all parameters + the attention term of `full` (PaLM, arXiv:2204.02311, appendix B).
        - `palm_causal`: as `palm` with half of the attention term.

        Recomputation counts in none of them. Assumes one causal triangle per sequence: documents packed
        into one sequence are not masked from each other.

        >>> from workloads import models
        >>> llama = models.build("llama2_7b")
        >>> [round(llama.flops(4 * 8192, convention, sequence=8192) / 1e12, 1) for convention in ("full", "causal")]
        [1721.2, 1510.1]
        """
        return 3 * self.forward_flops(tokens, convention, sequence=sequence)

    def forward_flops(self, tokens: int, convention: str = "causal", *, sequence: int) -> int:
        """FLOPs of the forward pass alone: a third of `flops`."""
        if convention not in CONVENTIONS:
            raise ValueError(unknown("FLOPs convention", convention, CONVENTIONS))
        check_whole("tokens", tokens, 0, 10**18)
        self.check_sequence(sequence)
        if convention.startswith("palm"):
            weights = self.parameters()
        else:
            weights = self.layers * self.layer_matmul_parameters() + self.vocab * self.hidden
        halves = 1 if convention.endswith("causal") else 2
        attention = 2 * halves * self.layers * self.heads * self.head_dim * sequence
        return (2 * weights + attention) * tokens

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
