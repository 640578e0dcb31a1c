"""What models of the GPT family have in common, from GPT-2 on.

Layers with biases and layer norms, a plain network of four times the width, tied embeddings, learned positions; dropout
as Megatron-LM trains them.
"""

from workloads.transformer import Transformer


def gpt(name: str, *, layers: int, hidden: int, heads: int, vocab: int = 51200, positions: int = 2048) -> Transformer:
    """A model of so many layers of that width; vocabulary and sequence are those of Megatron-LM's evaluations."""
    return Transformer(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        ffn=4 * hidden,
        vocab=vocab,
        gated=False,
        tied=True,
        norm="layernorm",
        bias=True,
        positions=positions,
        dropout=True,
    )
