"""Plugin folders: what they list, what they refuse, and the two copies of their mechanism."""

import inspect
from pathlib import Path

import pytest

import topologies
import topologies.plugins
import workloads.plugins
from simulator import collectives, plots
from workloads import models, schedules, strategies

FOLDERS = {
    "models": models,
    "topologies": topologies,
    "accelerators": topologies.accelerators,
    "strategies": strategies,
    "schedules": schedules,
    "collectives": collectives,
    "plots": plots,
}


def test_both_packages_have_the_same_mechanism():
    """The packages may not import each other, so the file exists twice: a change to one belongs in both."""
    ours, theirs = (Path(module.__file__).read_text() for module in (topologies.plugins, workloads.plugins))
    assert ours == theirs


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)
def test_a_folder_lists_public_modules(folder):
    names = folder.names()
    assert names == sorted(set(names))
    assert names
    assert not [name for name in names if name.startswith("_")]


@pytest.mark.parametrize(
    ("build", "what"),
    [
        (lambda: models.build("lama3_8b"), "unknown model 'lama3_8b'; did you mean llama3_8b"),
        (lambda: models.build("llama3_8b,layer=3"), "unknown field of a model 'layer'; did you mean layers"),
        (lambda: topologies.build("dgx_h10"), "unknown topology 'dgx_h10'; did you mean dgx_h100"),
        (lambda: topologies.build("dgx_h100,node=2"), "unknown option of dgx_h100 'node'; did you mean nodes"),
        (lambda: topologies.accelerators.build("h1000"), "unknown accelerator 'h1000'; did you mean h100"),
        (lambda: strategies.build("tpp", 2), "unknown axis 'tpp'; did you mean tp"),
        (lambda: strategies.build("dp", 2, zeros=1), "unknown option of dp 'zeros'; did you mean zero"),
        (lambda: schedules.build("1f2b", 2, 2), "unknown schedule '1f2b'"),
        (
            lambda: schedules.build("interleaved", 2, 2, virtuals=2),
            "option of interleaved 'virtuals'; did you mean virt",
        ),
        (
            lambda: collectives.build("rings", None, None, None),
            "unknown collective algorithm 'rings'; did you mean ring",
        ),
        (lambda: plots.draw("gant", None), "unknown plot 'gant'; did you mean gantt"),
    ],
)
def test_unknown_names_and_options_name_the_nearest(build, what):
    with pytest.raises(ValueError, match=what) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("folder", [models, schedules, strategies, topologies.accelerators, topologies])
def test_every_plugin_documents_its_build(folder):
    """A plugin is one module with one `build`, and says where its facts come from or what it does."""
    package = getattr(folder, "_FOLDER", None) or getattr(folder, "FOLDER", None) or topologies.clusters.FOLDER
    for name in folder.names():
        module = package.module(name)
        assert inspect.getdoc(module), name
        assert inspect.getdoc(module.build), name


@pytest.mark.parametrize("text", ["name,", "name,key", "name,=3", "name,key=", "name,key=1,key=2"])
@pytest.mark.parametrize("module", [topologies.plugins, workloads.plugins])
def test_broken_text_is_refused(module, text):
    with pytest.raises(ValueError, match="name,"):
        module.parse(text)
