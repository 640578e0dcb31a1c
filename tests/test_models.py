"""Models: exact parameter counts, FLOPs under each convention, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import models
from workloads.transformer import CONVENTIONS, Transformer

COUNTS = {
    "llama2_7b": 6_738_415_616,
    "llama3_8b": 8_030_261_248,
    "llama3_70b": 70_553_706_496,
    "llama3_405b": 405_853_388_800,
}


@st.composite
def transformers(draw: st.DrawFn) -> Transformer:
    kv_heads = draw(st.integers(1, 4))
    return Transformer(
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


@pytest.mark.parametrize("name", models.names())
def test_every_model_builds_under_its_own_name(name: str) -> None:
    model = models.build(name)
    assert model.name == name
    assert model.parameters() > 1e9


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_equal_the_released_checkpoints(name: str) -> None:
    assert models.build(name).parameters() == COUNTS[name]


@pytest.mark.parametrize("name", COUNTS)
def test_llama_closed_form(name: str) -> None:
    """L(2h*hd*(a + k) + 3h*f + 2h) + 2Vh + h: no biases, gated network, untied embeddings."""
    model = models.build(name)
    h, attention = model.hidden, 2 * model.hidden * model.head_dim * (model.heads + model.kv_heads)
    layer = attention + 3 * h * model.ffn + 2 * h
    assert model.parameters() == model.layers * layer + 2 * model.vocab * h + h


def test_gpt3_closed_form() -> None:
    """12Lh^2 + 13Lh + (V + s)h + 2h: biases everywhere, tied embeddings, learned positions."""
    layers, h, vocab, positions = 96, 12288, 50257, 2048
    expected = 12 * layers * h**2 + 13 * layers * h + (vocab + positions) * h + 2 * h
    assert models.build("gpt3_175b").parameters() == expected


def test_fp16_gradients_of_a_7b_model_are_13_5_gigabytes() -> None:
    assert 2 * models.build("llama2_7b").parameters() == pytest.approx(13.5e9, rel=0.005)


@given(transformers())
def test_parts_sum_to_all_parameters(model: Transformer) -> None:
    ends = model.embedding_parameters() + model.final_norm_parameters() + model.head_parameters()
    assert model.parameters() == ends + model.layers * model.layer_parameters()
    assert ends > 0 or model.vocab == 0


@given(transformers())
def test_tying_saves_one_table_and_no_flops(model: Transformer) -> None:
    tied, untied = model.replace(tied=True), model.replace(tied=False)
    assert untied.parameters() - tied.parameters() == model.vocab * model.hidden
    assert untied.flops(64, sequence=32) == tied.flops(64, sequence=32)


@given(transformers(), st.integers(1, 10_000), st.integers(1, 10_000))
def test_causal_is_halfway_between_no_attention_and_full(model: Transformer, tokens: int, sequence: int) -> None:
    attention = 12 * model.layers * model.heads * model.head_dim * sequence * tokens
    full, causal = (model.flops(tokens, convention, sequence=sequence) for convention in ("full", "causal"))
    palm, palm_causal = (model.flops(tokens, convention, sequence=sequence) for convention in ("palm", "palm_causal"))
    assert full - causal == palm - palm_causal == attention // 2
    assert palm == 6 * model.parameters() * tokens + attention


@given(transformers(), st.sampled_from(CONVENTIONS))
def test_flops_are_linear_in_tokens_and_three_forwards(model: Transformer, convention: str) -> None:
    assert model.flops(300, convention, sequence=100) == 3 * model.flops(100, convention, sequence=100)
    assert model.flops(100, convention, sequence=100) == 3 * model.forward_flops(100, convention, sequence=100)


def test_grouped_query_attention_saves_weights_not_attention() -> None:
    """Scores and their product with values run over all heads, however few keys and values there are."""
    grouped = models.build("llama3_8b")
    plain = grouped.replace(kv_heads=grouped.heads)
    weights = 6 * grouped.layers * 2 * (plain.kv_heads - grouped.kv_heads) * grouped.head_dim * grouped.hidden
    assert plain.flops(1, sequence=8192) - grouped.flops(1, sequence=8192) == weights


@pytest.mark.parametrize(("convention", "mfu"), [("palm", 0.4737), ("palm_causal", 0.4412)])
def test_llama2_mfu_at_ten_thousand_tokens_a_second(convention: str, mfu: float) -> None:
    flops = models.build("llama2_7b").flops(10_000, convention, sequence=4096)
    assert flops / 989.4e12 == pytest.approx(mfu, rel=0.005)


@pytest.mark.parametrize(
    ("sequence", "full", "causal", "weights"), [(8192, 1721.2, 1510.1, 1299.0), (129024, 125194, 72827, 20459)]
)
def test_llama2_teraflops_of_four_sequences(sequence: int, full: float, causal: float, weights: float) -> None:
    model, tokens = models.build("llama2_7b"), 4 * sequence
    ours = [model.flops(tokens, convention, sequence=sequence) / 1e12 for convention in ("full", "causal")]
    assert ours == pytest.approx([full, causal], rel=1e-3)
    assert 2 * ours[1] - ours[0] == pytest.approx(weights, rel=1e-3)


def test_without_vocabulary_only_equal_layers_remain() -> None:
    model = models.build("gpt3_175b,vocab=0")
    assert model.parameters() == 96 * model.layer_parameters()
    assert model.flops(1, sequence=2048) == 96 * model.replace(layers=1).flops(1, sequence=2048)


def test_a_changed_model_is_named_by_the_text_that_builds_it() -> None:
    model = models.build("llama3_8b,layers=16", tied=True)
    assert model.layers == 16
    assert model.tied
    assert models.build(model.name) == model
    assert model.replace(name="half").name == "half"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lama3_8b", "did you mean llama3_8b"),
        ("llama3_8b,layer=16", "did you mean layers"),
        ("llama3_8b,layers", "is not key=value"),
        ("llama3_8b,layers=0", "layers=0 is not a whole number from 1 to"),
        ("llama3_8b,layers=1.5", "layers=1.5 is not a whole number"),
        ("llama3_8b,layers=on", "layers=True is not a whole number"),
        ("llama3_8b,hidden=999999999999", "hidden=999999999999 is not a whole number from"),
        ("llama3_8b,kv_heads=5", "heads=32 is not divisible by kv_heads=5; nearest kv_heads: 4 or 8"),
        ("llama3_8b,heads=4", "heads=4 is not divisible by kv_heads=8; nearest kv_heads: 4"),
        ("llama3_8b,norm=batchnorm", "unknown norm 'batchnorm'"),
        ("llama3_8b,norm=5", "unknown norm .5."),
        ("llama3_8b,tied=maybe", "tied=maybe is neither on nor off"),
        ("llama3_8b,tied=1", "tied=1 is neither on nor off"),
        ("llama3_8b,name=5", "name=5: a model is named by the text that builds it"),
        ("llama3_8b,layers=16,name=half", "name=half: a model is named by the text that builds it"),
    ],
)
def test_bad_models_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        models.build(text)
    assert "\n" not in str(caught.value)


def test_a_sequence_fits_the_learned_positions() -> None:
    """GPT-3 has 2048; rotary positions have no end, and without vocabulary the table is left out."""
    gpt3 = models.build("gpt3_175b")
    assert gpt3.flops(1, sequence=2048) > 0
    with pytest.raises(ValueError, match="sequence=2049 is longer than the 2048 learned positions of gpt3_175b"):
        gpt3.flops(1, sequence=2049)
    for unlimited in (gpt3.replace(positions=0), gpt3.replace(vocab=0)):
        assert unlimited.flops(1, sequence=2049) > unlimited.flops(1, sequence=2048)


def test_other_bad_input() -> None:
    model = models.build("llama3_8b")
    with pytest.raises(ValueError, match="name=5 is no name"):
        model.replace(name=5)
    with pytest.raises(ValueError, match="layers is given twice"):
        models.build("llama3_8b,layers=16", layers=8)
    with pytest.raises(ValueError, match="did you mean causal"):
        model.flops(1, "casual", sequence=1)
    with pytest.raises(ValueError, match="sequence=0 is not"):
        model.flops(1, sequence=0)
