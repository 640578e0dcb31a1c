"""Random models for property tests."""

from hypothesis import strategies as st

from workloads.transformer import Transformer


@st.composite
def transformers(draw: st.DrawFn, masked: bool = False) -> Transformer:
    """A small model with any mixture of options; `masked` also draws what attention sees, else all of it, causal."""
    kv_heads = draw(st.integers(1, 4))
    mask = {
        "causal": draw(st.booleans()),
        "window": draw(st.integers(0, 300)),
        "block_density": draw(st.floats(0.01, 1.0)),
        "dropout": draw(st.booleans()),
    }
    model = Transformer(
        name="random",
        layers=draw(st.integers(1, 6)),
        hidden=draw(st.integers(1, 64)),
        heads=kv_heads * draw(st.integers(1, 4)),
        kv_heads=kv_heads,
        head_dim=draw(st.integers(1, 16)),
        ffn=draw(st.integers(1, 128)),
        vocab=draw(st.integers(0, 100)),
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
        norm=draw(st.sampled_from(["rmsnorm", "layernorm"])),
        bias=draw(st.booleans()),
        positions=draw(st.sampled_from([0, 10_000])),
    )
    return model.replace(**mask) if masked else model
