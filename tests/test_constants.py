"""Every constant of the product: what it may depend on, how well it is known, and that there are few."""

import numpy as np
import pytest

from simulator import allocator, constants, fabrics, kernels
from simulator.demand import Demand, price
from simulator.fabrics import CLASSES, NETWORK, SM_SHARES
from simulator.validation.calibration_priors import FIXED, prior
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
        ("accelerators", "TPU"): (FAMILY, "share"),
        ("links", "slingshot"): (TECHNOLOGY, "share"),
        ("links", "omnipath"): (TECHNOLOGY, "share"),
        ("links", "tcpx"): (TECHNOLOGY, "software_step"),
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
        ("families", "B200-SXM"): (FAMILY, "gemm_bf16"),
        ("attention", "all"): (SHARED, "overhead_keys"),
        ("attention", "best"): (TECHNOLOGY, "score_depth share"),
        ("attention", "flash2"): (TECHNOLOGY, "score_depth"),
        ("attention", "A100 flash2"): (BOTH, "share"),
        ("attention", "Hopper best"): (BOTH, "share"),
        ("attention", "A100 triton"): (BOTH, "share"),
        ("training", "other"): (FAMILY, "clock attention_clock memory jitter step_seconds launch_interval"),
        ("training", "A100"): (FAMILY, "clock"),
        ("training", "megatron_2021"): (STACK, "launch_interval"),
        ("training", "internlm_2023"): (STACK, "kernel_share"),
        ("training", "deepspeed_2022"): (STACK, "kernel_share"),
        ("training", "mpt_fsdp_2023"): (STACK, "kernel_share"),
    },
}

# Python has what is not read from a file, each with its source or what it assumes beside it. Bytes of memory count as
# well as seconds: no data sheet gives these.
PYTHON = {
    "simulator.fabrics.SM_SHARES of scale-up links": (CLASS, SM_SHARES["nvlink"]),
    "simulator.fabrics.SM_SHARES of networks": (CLASS, SM_SHARES["infiniband"]),
    "simulator.allocator.MARGIN": (SHARED, allocator.MARGIN),
    "workloads.memory.RUNTIME_BYTES": (SHARED, memory.RUNTIME_BYTES),
}

MOST = 60
BY_THEMSELVES = 17
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
    errors, sources = constants.errors(file), constants.sources(file)
    assert not set(errors) & set(sources)
    assert {*errors, *sources} == set(constants.read(file))
    assert all(len(source.split()) > 3 for source in sources.values())


@pytest.mark.parametrize("file", FILES)
def test_errors_are_well_below_what_is_known_anyway(file):
    """Of measured links and kernels within 30 %; of what steps tell below the prior's.

    Jitter and a host's seconds a step have wide priors, as sources tell no more than their size.
    """
    for key, error in constants.errors(file).items():
        known = prior(key)
        assert 0 < error < (0.3 if known is None else known.spread)


def test_shares_of_sms_differ_by_class_alone():
    assert {SM_SHARES[kind] for kind in NETWORK} == {SM_SHARES["infiniband"]}
    assert set(SM_SHARES.values()) == {SM_SHARES["nvlink"], SM_SHARES["infiniband"]}


def test_there_are_at_most_sixty():
    assert sum(len(constants.read(file)) for file in FILES) + len(PYTHON) <= MOST
    by_themselves = [
        key
        for key in constants.read("kernels.yaml")
        if key[0] != "training" and prior(key) is None and key not in FIXED
    ]
    assert len(by_themselves) <= BY_THEMSELVES


def test_an_accelerator_has_its_generation_in_both_files():
    """Kernels tell more families apart than links do."""
    for name, family in kernels.FAMILIES.items():
        if family in fabrics.FAMILIES.values() and family != "Blackwell":
            assert fabrics.FAMILIES[name] == family


def test_messages_of_a_shared_card_take_turns():
    """An A100's EFA card serves two: each step of the host's software takes twice what it takes elsewhere."""
    ours, theirs = (fabrics.published().fabric("efa", name) for name in ("A100-SXM4-80GB", "H100-SXM5"))
    assert ours.software_step == theirs.software_step > 0
    assert (ours.turns, theirs.turns) == (2, 1)
    demand = Demand(np.zeros((1, 1)), np.full((1, 1), 6.0), np.zeros(1), np.ones((1, 1), bool), np.zeros(1))
    own, other = (price(demand, lambda name, each=each: np.array([[getattr(each, name)]])) for each in (ours, theirs))
    launch = ours.launch - theirs.launch
    assert own.seconds[0] - other.seconds[0] == pytest.approx(launch + 6 * theirs.software_step, rel=1e-9)
