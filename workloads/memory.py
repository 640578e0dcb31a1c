"""Memory of a rank, itemised: model states, activations in flight, logits, gathered layers, buffers, runtime.

Bytes. Source of activations: arXiv:2205.05198.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from workloads.footprint import Footprint, Item
from workloads.layers import Layer
from workloads.recompute import Target
from workloads.stages import Stage

if TYPE_CHECKING:
    from workloads.step import TrainingStep

WORKSPACE_BYTES = 32 * 2**20
"""Bytes of scratch memory for matrix products (PyTorch documentation: cuBLAS workspace, 32 MiB on Hopper)."""
KEPT_LOGIT_BYTES = 4
"""Bytes per logit: the FP32 softmax of the loss, kept from forward to backward."""
EAGER_LOGIT_BYTES = 8, 12
"""Bytes per logit beside the softmax in the backward of an eager loss: FP32 gradients of the chosen entries and of the
softmax (PyTorch's nll_loss and log_softmax); where ranks share the vocabulary the softmax once more and the sum of the
two, too (PyTorch's distributed.tensor.parallel.loss)."""
RUNTIME_BYTES = 1.5e9
"""Bytes of CUDA context, libraries and communicator buffers. Assumes one figure for every cluster and plan."""
PARTS = {"embedding": "embedding", "layer": "layers", "head": "head"}
"""Kinds of layers, and the parts of the account that they are."""
SHARES = {
    "parameters": "parameters",
    "gradients": "accumulated",
    "master_weights": "optimizer",
    "optimizer": "optimizer",
}
"""Rows of model states, and the names by which strategies know their shares."""
INPUTS = "layer inputs"
"""What full recomputation keeps, as a part of the account."""
OUTPUTS = "stage outputs"
"""What some pipelines keep of a stage when it has been sent."""

Found = dict[Item, float]


def footprints(step: "TrainingStep") -> dict[tuple[int, ...], Footprint]:
    """What the memory of each pp coordinate holds.

    `gathered` includes gradients that are not scattered yet; `buffers` are an activation and a gradient on their way
    between stages, and under sequence parallelism the tokens of all ranks (forward: one tensor; backward: an input and
    a gradient). Assumes that a unit's gradient is scattered before the next one is complete, that gradients of
    activations take no room beside these, but where W waits for them.

    >>> from workloads import TrainingStep
    >>> step = TrainingStep("llama2_7b", plan="dp=8", batch=8, sequence=4096)
    >>> rows = footprints(step)[0,].rows(step.program().orders[0,])
    >>> round(rows["optimizer"] / 1e9, 1)
    53.9
    """
    kinds = step.schedule.kinds
    return {(rank,): _Account(step, rank).footprint(kinds) for rank in range(step.schedule.ranks)}


class _Account:
    """The account of one pp coordinate."""

    def __init__(self, step: "TrainingStep", rank: int) -> None:
        self.step, self.microbatch = step, step.rank_microbatch
        self.versions = step.schedule.versions[rank]
        places = enumerate(step.schedule.placement)
        self.stages = {stage: step.stages[stage] for stage, place in places if place == rank}
        self.layers = [layer for stage in self.stages.values() for layer in stage.layers]

    def footprint(self, kinds: Sequence[str]) -> Footprint:
        """What there is all along, for a microbatch in flight, and during an action of some kinds."""
        distinct = {id(stage): stage for stage in self.stages.values()}
        held = {key: self._held(stage) for key, stage in distinct.items()}
        working = {(key, kind): self._working(stage, kind) for key, stage in distinct.items() for kind in kinds}
        return Footprint(
            self._resident(),
            {number: held[id(stage)] for number, stage in self.stages.items()},
            {(number, kind): working[id(stage), kind] for number, stage in self.stages.items() for kind in kinds},
            self._states(offloaded=True),
            {number: self._factors(stage.layers) for number, stage in self.stages.items() if "W" in kinds},
        )

    def _resident(self) -> Found:
        """Model states, gathered layers, the runtime."""
        found = self._states(offloaded=False)
        self._add_gathered(found)
        self._add_fetched(found)
        if self.step.schedule.ranks > 1:
            _add(found, Item("buffers", "messages"), 2 * self._boundary())
        _add(found, Item("buffers", "bucket"), self._bucket())
        _add(found, Item("workspace"), WORKSPACE_BYTES)
        _add(found, Item("runtime"), RUNTIME_BYTES)
        return found

    def _bucket(self) -> float:
        """The flat copy of gradients that replicas reduce at once, where the stack makes one.

        Assumes that it, like an optimizer's copies, is too large for the blocks that freed activations leave.
        """
        reduces = any(each.splits_batch and each.degree > 1 for each in self.step.settled_plan.strategies)
        most = sum(layer.parameters for layer in self.layers) if reduces else 0.0
        return min(self.step.stack.bucket, most) * self.microbatch.reduced_bytes

    def _add_gathered(self, found: Found) -> None:
        """Parameters that are gathered and converted, and gradients that are not scattered yet.

        The gradient of a tied table is among these from its first part to its second.
        """
        copies = [layer.narrow_weights * self.microbatch.precision.copies for layer in self.layers]
        if self.step.has_transient_parameters:
            _add(found, Item("gathered", "narrow copies"), max(copies, default=0.0))
        else:
            _add(found, Item("parameters", "narrow copies"), sum(copies))
        gradients = [[layer.gradients for layer in stage.layers] for stage in self.stages.values()]
        for strategy in self.step.settled_plan.inside_out:
            gathered = strategy.gathered([layer.used for layer in self.layers])
            _add(found, Item("gathered", "parameters"), gathered * self.microbatch.element)
            waiting = max(strategy.unscattered(units, self.microbatch) for units in gradients)
            tied = sum(layer.used - layer.parameters for layer in self.layers) if waiting else 0.0
            _add(found, Item("gathered", "gradients"), (waiting + tied) * self.microbatch.reduced_bytes)
            kept = strategy.share("gradients")
            if kept < 1:
                gradients = [[[sum(unit) * kept] for unit in units] for units in gradients]

    def _add_fetched(self, found: Found) -> None:
        """Parameters that come from the host, those of two units, and gradients on their way there, those of one."""
        plan = self.step.settled_plan
        if self.step.offload.keeps("parameters"):
            fetched = sum(sorted(layer.used for layer in self.layers)[-2:]) * plan.share("parameters")
            _add(found, Item("buffers", "fetched parameters"), fetched * self.microbatch.element)
        if self.step.offload.keeps("gradients"):
            leaving = max((layer.parameters for layer in self.layers), default=0.0) * plan.share("gradients")
            _add(found, Item("buffers", "leaving gradients"), leaving * self.microbatch.reduced_bytes)

    def _states(self, *, offloaded: bool) -> Found:
        """Model states that are kept here, or those at the host."""
        found: Found = {}
        optimizer, element = self.step.settled_optimizer, self.microbatch.element
        sizes = {
            "parameters": element,
            "gradients": self.microbatch.gradient_bytes,
            "master_weights": optimizer.master_bytes(element),
            "optimizer": optimizer.moments + optimizer.copy,
        }
        for row, size in sizes.items():
            if self.step.offload.keeps(row) == offloaded:
                many = self.versions if row == "parameters" else 1
                for layer in self.layers:
                    each = many * layer.parameters * size * self.step.settled_plan.share(SHARES[row])
                    _add(found, Item(row, PARTS[layer.kind]), each)
        return found

    def _held(self, stage: Stage) -> Found:
        """What a stage keeps of one microbatch."""
        found: Found = {}
        for layers, repeated in self._pieces(stage):
            self._add_kept(found, layers, repeated=repeated)
        if self.step.stack.keeps_outputs and stage.layers and stage.layers[-1].kind != "head":
            _add(found, Item("activations", OUTPUTS), self._boundary())
        return found

    def _working(self, stage: Stage, kind: str) -> list[Found]:
        """What is there beside that while an action runs, piece by piece of the stage."""
        always: Found = {}
        if stage.layers and self.step.settled_plan.share("boundary") < 1:
            gathered = self.microbatch.bytes(self.step.model.hidden) * (1 if kind == "F" else 2)
            _add(always, Item("buffers", "gathered tokens"), gathered)
        if kind == "W":
            parts = self._weights(stage)
        else:
            parts = self._forward(stage) if kind == "F" else list(self._backward(stage, split=kind == "I"))
        return [_joined(always, part) for part in parts] or [always]

    def _forward(self, stage: Stage) -> list[Found]:
        """Parts of a forward, piece by piece; what later ones will keep is subtracted."""
        missing: Found = {}
        parts: list[Found] = []
        for layers, repeated in reversed(self._pieces(stage)):
            parts.append(_joined(missing, self._logits(stage, kind="F") if layers[0].kind == "head" else {}))
            self._add_kept(missing, layers, repeated=repeated, sign=-1)
        return parts[::-1]

    def _backward(self, stage: Stage, *, split: bool) -> Iterator[Found]:
        """Parts of a backward: each piece of the stage from its end, when that has been computed again.

        What is behind it has been freed by then, and is subtracted; if it is `split`, all but what W needs.
        """
        freed: Found = {}
        for layers, repeated in reversed(self._pieces(stage)):
            part = dict(freed)
            for layer in layers:
                self._add_recomputed(part, layer, repeated=repeated)
            part = _joined(part, self._logits(stage, kind="B") if layers[0].kind == "head" else {})
            if repeated:
                first = next(iter(layers[0].modules)).name
                _add(part, Item("recomputed", _prefix(layers[0]) + first), -self._boundary())
            yield part
            self._add_kept(freed, layers, repeated=repeated, sign=-1)
            freed = _joined(freed, self._factors(layers)) if split else freed

    def _weights(self, stage: Stage) -> list[Found]:
        """Parts of the weight gradients, from the stage's end; the factors of those that are done are subtracted."""
        done: Found = {}
        parts: list[Found] = []
        for layers, _ in reversed(self._pieces(stage)):
            parts.append(done)
            done = _joined(done, {item: -size for item, size in self._factors(layers).items()})
        return parts

    def _factors(self, layers: Iterable[Layer]) -> Found:
        """What weight gradients need of layers whose input gradients are done."""
        found: Found = {}
        for layer in layers:
            for module in layer.modules:
                item = Item("activations", _prefix(layer) + module.name)
                _add(found, item, module.saved_factors(self.microbatch))
        return found

    def _add_kept(self, found: Found, layers: Sequence[Layer], *, repeated: bool, sign: int = 1) -> None:
        """What a piece keeps from forward to backward: of a group of layers that is recomputed its input alone."""
        if repeated:
            _add(found, Item("activations", INPUTS), sign * self._boundary())
        else:
            self._add_saved(found, layers[0], sign=sign)
            self._add_softmax(found, layers[0], sign=sign)

    def _pieces(self, stage: Stage) -> list[tuple[tuple[Layer, ...], bool]]:
        """A stage's layers in order: groups that are recomputed whole, and single ones that are not."""
        layers = [layer for layer in stage.layers if layer.kind == "layer"]
        groups = self.step.recompute.groups(len(layers))
        pieces = [(tuple(layers[index] for index in group), True) for group in groups]
        pieces += [((layer,), False) for layer in layers[groups[-1].stop if groups else 0 :]]
        ends = {layer.kind: layer for layer in stage.layers if layer.kind != "layer"}
        first = [((ends["embedding"],), False)] if "embedding" in ends else []
        last = [((ends["head"],), self.step.recompute.head)] if "head" in ends else []
        return [*first, *pieces, *last]

    def _logits(self, stage: Stage, kind: str) -> Found:
        """Logits in their own precision; of an eager loss an FP32 copy in the forward, and gradients in the backward.

        Those are gone when the logits' own gradient is made of them.
        """
        found: Found = {}
        many = sum(layer.logits for layer in stage.layers)
        own, each = self.microbatch.bytes(many), self.microbatch.tokens * many
        if self.step.stack.eager_loss:
            shared = any(loss.axis for layer in stage.layers for loss in layer.losses)
            own = own + KEPT_LOGIT_BYTES * each if kind == "F" else EAGER_LOGIT_BYTES[shared] * each
        _add(found, Item("logits", "logits"), own)
        return found

    def _add_recomputed(self, found: Found, layer: Layer, *, repeated: bool) -> None:
        """What a layer's backward computes again: all that it keeps, or the parts of it that it does not."""
        kept, whole = (layer.saved(self.microbatch, each) for each in (self._targets(layer), ()))
        for name, size in whole.items():
            _add(found, Item("recomputed", _prefix(layer) + name), size if repeated else size - kept[name])
        if repeated:
            self._add_softmax(found, layer)

    def _targets(self, layer: Layer) -> tuple[Target, ...]:
        """What is recomputed selectively, of layers between embedding and head."""
        return self.step.recompute.targets if layer.kind == "layer" else ()

    def _boundary(self) -> float:
        """The activation between two layers."""
        return self.microbatch.bytes(self.step.model.hidden * self.step.settled_plan.share("boundary"))

    def _add_saved(self, found: Found, layer: Layer, *, sign: int = 1) -> None:
        """Everything that a layer keeps, by module; those of embedding and head under their name."""
        for name, size in layer.saved(self.microbatch, self._targets(layer)).items():
            _add(found, Item("activations", _prefix(layer) + name), sign * size)

    def _add_softmax(self, found: Found, layer: Layer, *, sign: int = 1) -> None:
        """The softmax of the loss."""
        _add(found, Item("logits", "softmax"), sign * layer.logits * self.microbatch.tokens * KEPT_LOGIT_BYTES)


def _prefix(layer: Layer) -> str:
    """What comes before the names of embedding's and head's modules."""
    return "" if layer.kind == "layer" else f"{layer.kind}."


def _joined(one: Found, other: Found) -> Found:
    """The items of both."""
    return {item: one.get(item, 0.0) + other.get(item, 0.0) for item in {**one, **other}}


def _add(found: Found, item: Item, size: float) -> None:
    """More bytes of an item."""
    if size:
        found[item] = found.get(item, 0.0) + size
