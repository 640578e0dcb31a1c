"""Every constant of the product: what it may depend on, how well it is known, and that there are few."""

import pytest

from simulator import allocator, constants, fabrics, kernels
from simulator.fabrics import CLASSES, NETWORK, SM_SHARES
from topologies.accelerators import DATA_SHEETS
from workloads import memory, models, stacks

SHARED, CLASS, FAMILY, TECHNOLOGY, BOTH, STACK = (
    *("shared by all", "class of links", "family of accelerators"),
    *("technology", "family and technology", "software stack"),
)

# By file, section and entry: what the constants there depend on, and their names. A technology is a kind of link or an
# implementation of attention. The narrowest place of kernels is a single accelerator, which counts as a family of its
# own.
LIST = {
    "fabrics.yaml": {
        ("shared", "all"): (SHARED, "launch setup step ramp"),
        ("shared", "scale_up"): (CLASS, "share low_latency_share in_switch_tree_share"),
        ("shared", "network"): (CLASS, "share low_latency_share bulk_step"),
        ("shared", "ethernet"): (CLASS, "lone_share"),
        ("shared", "hosted"): (CLASS, "software_step"),
        ("accelerators", "A100"): (FAMILY, "launch"),
        ("accelerators", "Hopper"): (FAMILY, "in_switch_share"),
        ("accelerators", "Blackwell"): (FAMILY, "in_switch_share"),
        ("accelerators", "GB200"): (FAMILY, "in_switch_share"),
        ("accelerators", "MI300"): (FAMILY, "share"),
        ("accelerators", "TPU"): (FAMILY, "share"),
        ("links", "slingshot"): (TECHNOLOGY, "share"),
        ("links", "omnipath"): (TECHNOLOGY, "share"),
        ("links", "tcpx"): (TECHNOLOGY, "software_step"),
        ("links", "A100 efa"): (BOTH, "software_step"),
        ("links", "MI300 roce"): (BOTH, "software_step"),
    },
    "kernels.yaml": {
        ("shared", "gemm"): (SHARED, "extra_depth_bytes tile_loss quantisation nvfp4_ratio"),
        ("shared", "kernel"): (SHARED, "memory_share kernel_seconds graph_seconds"),
        ("shared", "attention"): (SHARED, "backward_share"),
        ("families", "A100"): (FAMILY, "gemm"),
        ("families", "Hopper"): (FAMILY, "gemm gemm_fp8"),
        ("families", "Blackwell"): (FAMILY, "gemm"),
        ("families", "Blackwell Ultra"): (FAMILY, "gemm"),
        ("families", "MI300"): (FAMILY, "gemm"),
        ("families", "TPU"): (FAMILY, "gemm"),
        ("families", "other"): (FAMILY, "gemm"),
        ("attention", "all"): (SHARED, "overhead_keys"),
        ("attention", "best"): (TECHNOLOGY, "score_depth share"),
        ("attention", "flash2"): (TECHNOLOGY, "score_depth"),
        ("attention", "A100 flash2"): (BOTH, "share"),
        ("attention", "Hopper best"): (BOTH, "share"),
        ("attention", "A100 triton"): (BOTH, "share"),
        ("attention", "Hopper triton"): (BOTH, "share"),
        ("training", "other"): (FAMILY, "clock attention_clock memory jitter step_seconds launch_interval"),
        ("training", "TPU"): (FAMILY, "clock"),
    },
}

# Python has what is not read from a file, each with its source beside it.
PYTHON = {
    "simulator.fabrics.SM_SHARES of scale-up links": (CLASS, SM_SHARES["nvlink"]),
    "simulator.fabrics.SM_SHARES of networks": (CLASS, SM_SHARES["infiniband"]),
    "simulator.allocator.MARGIN": (SHARED, allocator.MARGIN),
    "workloads.memory.RUNTIME_BYTES": (SHARED, memory.RUNTIME_BYTES),
}

# Places whose constants have neither a standard error nor a source yet: to be fitted to training runs.
OPEN = {
    ("attention", "A100 triton"),
    ("attention", "Hopper triton"),
    ("training", "other"),
    ("training", "TPU"),
}

MOST = 60
FILES = list(LIST)
FAMILIES = {kernels.OTHER, *fabrics.FAMILIES.values(), *kernels.FAMILIES.values(), *DATA_SHEETS}
TECHNOLOGIES = {*CLASSES["all"], *kernels.VARIANTS.values()}


def scope(section, entry):
    """What constants may depend on that stand at a place; fails for anything else, such as a run or a paper."""
    family, _, technology = entry.rpartition(" ")
    if entry == "all" or (section == "shared" and entry in ("gemm", "kernel", "attention")):
        return SHARED
    if section == "shared" and entry in CLASSES:
        return CLASS
    if section in ("accelerators", "families", "training") and entry in FAMILIES:
        return FAMILY
    if section == "training" and entry in stacks.names():
        return STACK
    if section in ("links", "attention") and technology in TECHNOLOGIES:
        assert family in {"", *FAMILIES}
        return BOTH if family else TECHNOLOGY
    raise AssertionError(f"constants of {section}, {entry} depend on what they must not depend on")


@pytest.mark.parametrize("file", FILES)
def test_the_list_is_complete(file):
    listed = {(*place, name) for place, (_, names) in LIST[file].items() for name in names.split()}
    assert listed == set(constants.read(file))


@pytest.mark.parametrize("file", FILES)
def test_what_constants_depend_on(file):
    assert {place: on for place, (on, _) in LIST[file].items()} == {place: scope(*place) for place in LIST[file]}


@pytest.mark.parametrize("entry", ["arxiv:2205.05198", "llama3_405b", "vtrain_multi", "A100 megatron_2021", "dgx_h100"])
@pytest.mark.parametrize("section", ["shared", "accelerators", "links", "families", "attention", "training"])
def test_nothing_may_depend_on_a_run_a_model_or_a_paper(section, entry):
    with pytest.raises(AssertionError):
        scope(section, entry)
    assert not {*models.names()} & {*FAMILIES, *TECHNOLOGIES, *CLASSES, *stacks.names()}


@pytest.mark.parametrize("file", FILES)
def test_each_has_a_standard_error_or_a_source(file):
    """Exactly those that are open have neither, so that the list of them shrinks as they are fitted."""
    errors, sources = constants.errors(file), constants.sources(file)
    assert not set(errors) & set(sources)
    without = set(constants.read(file)) - {*errors, *sources}
    assert {place[:2] for place in without} == OPEN & set(LIST[file])
    assert {*errors, *sources} <= set(constants.read(file))
    assert all(0 < error < 0.3 for error in errors.values())
    assert all(len(source.split()) > 3 for source in sources.values())


def test_shares_of_sms_differ_by_class_alone():
    assert {SM_SHARES[kind] for kind in NETWORK} == {SM_SHARES["infiniband"]}
    assert set(SM_SHARES.values()) == {SM_SHARES["nvlink"], SM_SHARES["infiniband"]}


def test_there_are_at_most_sixty():
    assert sum(len(constants.read(file)) for file in FILES) + len(PYTHON) <= MOST
    kernel = [key for key in constants.read("kernels.yaml") if key[0] != "training" and "triton" not in key[1]]
    assert len(kernel) <= 22
