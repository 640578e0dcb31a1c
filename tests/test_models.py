"""Models: exact parameter counts, and what is refused."""

import pytest
from hypothesis import given
from random_models import transformers

from workloads import models
from workloads.transformer import Transformer

COUNTS = {
    "llama2_7b": 6_738_415_616,
    "llama2_70b": 68_976_648_192,
    "llama3_8b": 8_030_261_248,
    "llama3_70b": 70_553_706_496,
    "llama3_405b": 405_853_388_800,
    "mistral_7b": 7_241_732_096,
}
PUBLISHED = {
    "gpt2_xl": 1.558e9,
    "gpt3_175b": 175e9,
    "gpt_7_5b": 7.5e9,
    "gpt_22b": 22e9,
    "gpt_530b": 529.6e9,
    "gpt_1t": 1008e9,
}


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


@pytest.mark.parametrize("name", PUBLISHED)
def test_gpt_closed_form(name: str) -> None:
    """12Lh^2 + 13Lh + (V + s)h + 2h: biases everywhere, tied embeddings, learned positions.

    The formula of arXiv:2104.04473, section 5.1, and 2h for the norm before the head.
    """
    model = models.build(name)
    layers, h = model.layers, model.hidden
    expected = 12 * layers * h**2 + 13 * layers * h + (model.vocab + model.positions) * h + 2 * h
    assert model.parameters() == expected == pytest.approx(PUBLISHED[name], rel=0.01)


def test_every_model_is_counted() -> None:
    assert {*COUNTS, *PUBLISHED} == set(models.names())


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "heads"),
    [
        ("gpt_22b", 48, 6144, 64),
        ("gpt3_175b", 96, 12288, 96),
        ("gpt_530b", 105, 20480, 128),
        ("gpt_1t", 128, 25600, 160),
    ],
)
def test_dimensions_of_the_activation_recomputation_paper(name: str, layers: int, hidden: int, heads: int) -> None:
    """arXiv:2205.05198, table 3."""
    model = models.build(name)
    assert (model.layers, model.hidden, model.heads, model.kv_heads) == (layers, hidden, heads, heads)
    assert (model.ffn, model.heads * model.head_dim) == (4 * hidden, hidden)


def test_who_drops_out_and_who_slides() -> None:
    """The GPT of Megatron-LM and GPT-2 train with dropout; the GPT-3 paper names none."""
    built = [models.build(name) for name in models.names()]
    assert {model.name for model in built if model.dropout} == set(PUBLISHED) - {"gpt3_175b"}
    assert {model.name: model.window for model in built if model.window} == {"mistral_7b": 4096}
    assert all(model.causal and model.block_density == 1 for model in built)


def test_fp16_gradients_of_a_7b_model_are_13_5_gigabytes() -> None:
    assert 2 * models.build("llama2_7b").parameters() == pytest.approx(13.5e9, rel=0.005)


@given(transformers(masked=True))
def test_the_mask_holds_no_parameters(model: Transformer) -> None:
    dense = model.replace(causal=True, window=0, block_density=1.0, dropout=False)
    assert model.parameters() == dense.parameters()
    assert model.layer_parameters() == dense.layer_parameters()


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
        ("llama3_8b,causal=1", "causal=1 is neither on nor off"),
        ("llama3_8b,dropout=0.1", "dropout=0.1 is neither on nor off"),
        ("llama3_8b,window=-1", "window=-1 is not a whole number from 0 to"),
        ("llama3_8b,window=4e3", "window=4000.0 is not a whole number"),
        ("llama3_8b,window=off", "window=False is not a whole number"),
        ("llama3_8b,block_density=0", "block_density=0 is no share of blocks; it is above 0 and at most 1"),
        ("llama3_8b,block_density=1.5", "block_density=1.5 is no share of blocks"),
        ("llama3_8b,block_density=nan", "block_density=nan is no share of blocks"),
        ("llama3_8b,block_density=on", "block_density=True is no share of blocks"),
        ("llama3_8b,block_density=half", "block_density='half' is no share of blocks"),
        ("llama3_8b,windows=4096", "did you mean window"),
        ("llama3_8b,name=5", "name=5: a model is named by the text that builds it"),
        ("llama3_8b,layers=16,name=half", "name=half: a model is named by the text that builds it"),
    ],
)
def test_bad_models_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        models.build(text)
    assert "\n" not in str(caught.value)


def test_other_bad_input() -> None:
    model = models.build("llama3_8b")
    with pytest.raises(ValueError, match="name=5 is no name"):
        model.replace(name=5)
    with pytest.raises(ValueError, match="layers is given twice"):
        models.build("llama3_8b,layers=16", layers=8)
