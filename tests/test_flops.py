"""FLOPs: what each convention counts, what window and sparse blocks leave, and the sources' own formulas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_models import transformers

from workloads import flops, models
from workloads.transformer import CONVENTIONS, Transformer

GPT = ["gpt2_xl", "gpt_7_5b", "gpt_22b", "gpt3_175b", "gpt_530b", "gpt_1t"]
LLAMA = ["llama2_7b", "llama2_70b", "llama3_8b", "llama3_70b", "llama3_405b", "mistral_7b"]


def attention(model: Transformer, sequence: int, convention: str = "causal", tokens: int = 1) -> int:
    """The attention term alone: what is left without the weights."""
    counts_all = flops.CONVENTIONS[convention].weights == "all"
    weights = model.parameters() if counts_all else model.multiplied_parameters()
    return model.flops(tokens, convention, sequence=sequence) - 6 * weights * tokens


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


@pytest.mark.parametrize(("convention", "mfu", "square"), [("palm", 0.4737, 12), ("palm_causal", 0.4412, 6)])
def test_llama2_mfu_at_ten_thousand_tokens_a_second(convention: str, mfu: float, square: int) -> None:
    """6N + 12Lhs per token over the dense peak of an H100, or 6N + 6Lhs with the causal half."""
    model, tokens = models.build("llama2_7b"), 10_000
    counted = model.flops(tokens, convention, sequence=4096)
    assert counted == tokens * (6 * 6_738_415_616 + square * 32 * 4096 * 4096)
    assert counted / 989.4e12 == pytest.approx(mfu, abs=1e-4)
    assert counted / 1979e12 == pytest.approx(mfu / 2, rel=1e-3)  # the sparse peak: why the catalogue holds dense ones


@pytest.mark.parametrize(
    ("sequence", "full", "causal", "weights"), [(8192, 1721.2, 1510.1, 1299.0), (129024, 125194, 72827, 20459)]
)
def test_llama2_teraflops_of_four_sequences(sequence: int, full: float, causal: float, weights: float) -> None:
    model, tokens = models.build("llama2_7b"), 4 * sequence
    ours = [model.flops(tokens, convention, sequence=sequence) / 1e12 for convention in ("full", "causal")]
    assert ours == pytest.approx([full, causal], rel=1e-3)
    assert 2 * ours[1] - ours[0] == pytest.approx(weights, rel=1e-3)
    assert attention(model, sequence, "full", tokens) == 2 * attention(model, sequence, "causal", tokens)


def test_a_sequence_fits_the_learned_positions() -> None:
    """GPT-3 has 2048; rotary positions have no end, and without vocabulary the table is left out."""
    gpt3 = models.build("gpt3_175b")
    assert gpt3.flops(1, sequence=2048) > 0
    with pytest.raises(ValueError, match="sequence=2049 is longer than the 2048 learned positions of gpt3_175b"):
        gpt3.flops(1, sequence=2049)
    for unlimited in (gpt3.replace(positions=0), gpt3.replace(vocab=0)):
        assert unlimited.flops(1, sequence=2049) > unlimited.flops(1, sequence=2048)


@pytest.mark.parametrize("name", GPT)
@pytest.mark.parametrize("sequence", [512, 1024])
def test_megatron_is_the_formula_of_its_paper(name: str, sequence: int) -> None:
    """72BsLh^2(1 + s/6h + V/12Lh) and, with a second forward of the layers, 96BsLh^2(1 + s/6h + V/16Lh).

    arXiv:2104.04473, section 5.1 and appendix; multiplied out to stay in whole numbers.
    """
    model, batch = models.build(name), 7
    layers, h, vocab, tokens = model.layers, model.hidden, model.vocab, batch * sequence
    counted = model.flops(tokens, "megatron", sequence=sequence)
    assert counted == tokens * (72 * layers * h**2 + 12 * layers * h * sequence + 6 * h * vocab)
    again = model.replace(vocab=0).forward_flops(tokens, "megatron", sequence=sequence)
    assert counted + again == tokens * (96 * layers * h**2 + 16 * layers * h * sequence + 6 * h * vocab)


def test_megatron_reports_gpt_22b_as_its_paper_does() -> None:
    """arXiv:2205.05198, equation 8: model FLOPs of a step of 4 sequences, 72BLsh^2(1 + s/6h + V/12hL)."""
    batch, layers, s, h, vocab = 4, 48, 2048, 6144, 51200
    expected = 72 * batch * layers * s * h**2 * (1 + s / (6 * h) + vocab / (12 * h * layers))
    assert models.build("gpt_22b").flops(batch * s, "megatron", sequence=s) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", LLAMA)
def test_nemo_is_the_formula_of_its_library(name: str) -> None:
    """BsLh^2(12 + 12g/a + 18f/h + 6s/h + 6V/Lh) for gated networks and g of a key-value heads; 12s/h up to NeMo 2.4."""
    model, s, h = models.build(name), 8192, models.build(name).hidden
    weights = 12 + 12 * model.kv_heads / model.heads + 18 * model.ffn / h + 6 * model.vocab / (model.layers * h)
    for convention, square in (("nemo", 6), ("megatron", 12)):
        expected = 3 * s * model.layers * h**2 * (weights + square * s / h)
        assert model.flops(3 * s, convention, sequence=s) == pytest.approx(expected, rel=1e-12)


@given(transformers(), st.integers(1, 10_000))
def test_sources_equal_full_and_causal_without_window(model: Transformer, sequence: int) -> None:
    counted = {convention: model.flops(64, convention, sequence=sequence) for convention in CONVENTIONS}
    assert counted["megatron"] == counted["full"]
    assert counted["nemo"] == counted["causal"]


@given(transformers(masked=True), st.integers(1, 10_000))
def test_conventions_keep_their_order(model: Transformer, sequence: int) -> None:
    """Attended keys are no more than those in reach, these no more than the square."""
    counted = {convention: model.flops(640, convention, sequence=sequence) for convention in CONVENTIONS}
    assert counted["causal"] <= counted["full"] <= counted["megatron"]
    assert counted["causal"] <= counted["nemo"] <= counted["megatron"]
    assert counted["palm_causal"] <= counted["palm"]
    if not model.causal:
        assert (counted["causal"], counted["nemo"]) == (counted["full"], counted["megatron"])


@given(transformers(masked=True), st.integers(1, 10_000))
def test_sources_know_no_window_and_no_blocks(model: Transformer, sequence: int) -> None:
    dense = model.replace(window=0, block_density=1.0)
    for convention in ("megatron", "nemo"):
        assert model.flops(64, convention, sequence=sequence) == dense.flops(64, convention, sequence=sequence)


@given(transformers(masked=True), st.integers(1, 10_000), st.integers(0, 10_000))
def test_a_window_as_long_as_the_sequence_is_none(model: Transformer, sequence: int, more: int) -> None:
    whole, windowed = model.replace(window=0), model.replace(window=sequence + more)
    assert windowed.mask.span(sequence) == sequence
    assert windowed.mask.keys(sequence) == whole.mask.keys(sequence)
    for convention in CONVENTIONS:
        assert windowed.flops(64, convention, sequence=sequence) == whole.flops(64, convention, sequence=sequence)


@given(st.integers(1, 400), st.integers(1, 400))
def test_mean_keys_of_a_causal_window_match_counting_them(window: int, sequence: int) -> None:
    """The i-th query sees min(i, w) keys; the closed form w - w^2/2s leaves out half of the diagonal, w/2s."""
    model = models.build("mistral_7b").replace(window=window)
    counted = sum(min(query, window) for query in range(1, sequence + 1)) / sequence
    span = model.mask.span(sequence)
    assert model.mask.keys(sequence) == pytest.approx(counted - span / (2 * sequence), rel=1e-12)
    assert model.mask.keys(sequence) == pytest.approx(span - span**2 / (2 * sequence), rel=1e-12)
    assert model.replace(causal=False).mask.keys(sequence) == span


def test_mistral_counts_three_quarters_of_a_sequence_of_two_windows() -> None:
    """Keys are w - w^2/2s: at s = 2w these are 3w/4, of the s/2 = w without a window."""
    mistral = models.build("mistral_7b")
    assert attention(mistral, 8192) == 3 * attention(mistral.replace(window=0), 8192) // 4


def test_a_window_makes_long_sequences_linear() -> None:
    """Per sequence w(s - w/2): twice the sequence is twice the work; without a window four times."""
    mistral = models.build("mistral_7b").replace(window=128)
    dense = mistral.replace(window=0)
    long = [attention(mistral, s, tokens=s) for s in (2**16, 2**17, 2**18)]
    assert long[2] - long[1] == 2 * (long[1] - long[0])
    assert long[1] / long[0] == pytest.approx(2, rel=1e-3)
    assert attention(dense, 2**17, tokens=2**17) == 4 * attention(dense, 2**16, tokens=2**16)
    assert attention(mistral, 2**17, "full", 2**17) == 2 * attention(mistral, 2**16, "full", 2**16)


@given(transformers(masked=True), st.integers(1, 5_000), st.sampled_from(["causal", "full", "palm", "palm_causal"]))
def test_density_scales_attention_alone(model: Transformer, sequence: int, convention: str) -> None:
    dense = model.replace(block_density=1.0)
    expected = model.block_density * attention(dense, sequence, convention)
    assert attention(model, sequence, convention) == pytest.approx(expected, abs=3)
    half, tokens = dense.replace(block_density=0.5), 4 * sequence
    assert 2 * attention(half, sequence, convention, tokens) == attention(dense, sequence, convention, tokens)


def test_large_counts_stay_exact() -> None:
    """Far beyond 2^53, where floats skip whole numbers; an odd sequence leaves a half key."""
    model, tokens, sequence = models.build("llama3_405b"), 10**9 + 7, 131_071
    weights = 126 * (16384 * 128 * 2 * 136 + 3 * 16384 * 53248) + 128256 * 16384
    assert model.flops(tokens, sequence=sequence) == tokens * (6 * weights + 6 * 126 * 16384 * sequence)


def test_bad_input_in_one_line() -> None:
    model = models.build("llama3_8b")
    with pytest.raises(ValueError, match="did you mean causal"):
        model.flops(1, "casual", sequence=1)
    with pytest.raises(ValueError, match="unknown FLOPs convention 'mega'"):
        model.counted_keys(1, "mega")
    for call in (model.counted_keys, lambda sequence: model.flops(1, sequence=sequence)):
        with pytest.raises(ValueError, match="sequence=0 is not a whole number from 1"):
            call(0)
    with pytest.raises(ValueError, match=r"tokens=1\.5 is not a whole number"):
        model.flops(1.5, sequence=1)  # type: ignore[arg-type]
