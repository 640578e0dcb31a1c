"""The backward pass, derived from the forward pass by transposing each module.

A linear map's backward is its transpose: an all-gather becomes a reduce-scatter and the reverse, an identity
becomes an all-reduce and the reverse, a product of weights becomes two products. Input gradients and weight
gradients stay apart, so that a schedule may run them as one action (B) or as two (I and W). What is recomputed of a
layer comes right before the gradient of what follows it.
"""

from collections.abc import Iterator, Sequence

from workloads.layers import Layer, Part, Task, again, stretches
from workloads.microbatch import Microbatch
from workloads.modules import Boundary, Lookup, Matmul, Module
from workloads.recompute import Target


def backward(layer: Layer, microbatch: Microbatch, targets: Sequence[Target] = ()) -> list[Task]:
    """The backward tasks of a layer, last module first; input and weight gradients told apart by `part`.

    >>> from workloads import models
    >>> from workloads.layers import transformer_layer
    >>> tasks = backward(transformer_layer(models.build("llama3_8b")), Microbatch(8192, 8192))
    >>> [task.op.name for task in tasks if task.part == "weight"]
    ['down.weight_gradient', 'gate_up.weight_gradient', 'proj.weight_gradient', 'qkv.weight_gradient']
    """
    tasks: list[Task] = []
    flow: tuple[str, ...] = ("",)
    beside: tuple[str, ...] = ()
    modules = list(layer.modules)
    needed = {layer.modules[stretch.user].name: stretch for stretch in stretches(layer, targets)}
    while modules:
        module = modules.pop()
        if module.name in needed:
            tasks += again(layer, needed[module.name], microbatch)
        if isinstance(module, Boundary) and module.pieces > 1:
            piece, rest = module.cut(module.backward(microbatch))
            tasks += [Task(op, flow, "input") for op in (*piece, *rest)]
            flow, beside = tuple(op.name for op in piece), tuple(op.name for op in rest)
            continue
        if isinstance(module, Matmul):
            new = _product(module, _entered(modules), flow, beside, microbatch)
        else:
            new = list(_single(module, flow, microbatch))
        tasks += new
        flow = next(((task.op.name, *beside) for task in reversed(new) if task.part == "input"), flow)
        beside = ()
    return tasks


def _entered(modules: list[Module]) -> Boundary | None:
    """The boundary right before a product, taken off the modules that are left."""
    match modules:
        case [*_, Boundary(direction="enter") as boundary]:
            modules.pop()
            return boundary
    return None


def _single(module: Module, flow: tuple[str, ...], microbatch: Microbatch) -> Iterator[Task]:
    """The backward ops of a module that is no product; a look-up has no input gradient."""
    part: Part = "weight" if isinstance(module, Lookup) else "input"
    ops = module.backward(microbatch)
    for number, op in enumerate(ops, 1):
        weights = module.parameters if number == len(ops) else 0
        yield Task(op, flow, part, module.parameters if number == 1 else 0, weights)
        flow = (op.name,)


def _product(
    module: Matmul, entered: Boundary | None, flow: tuple[str, ...], beside: tuple[str, ...], microbatch: Microbatch
) -> list[Task]:
    """Input gradient, then weight gradient, with the boundary's collectives overlapped as in Megatron-LM.

    Of a gather in pieces, the weight gradient waits for those `beside` the input gradient.

    With sequence parallelism the gathered input was not kept: its all-gather runs beside the input gradient,
    and the reduce-scatter of that gradient beside the weight gradient. Without it, the all-reduce does.
    """
    m, n, k, narrow = microbatch.tokens, module.width, module.inputs, module.narrow
    casts = microbatch.casts(f"{module.name}.gradient_cast", n) if narrow else ()
    by_input = microbatch.gemm(f"{module.name}.input_gradient", (m, k, n), narrow=narrow)
    output = microbatch.gradient_bytes
    by_weight = microbatch.gemm(f"{module.name}.weight_gradient", (k, n, m), narrow=narrow, output=output)
    gathered = entered.again(microbatch, narrow=narrow) if entered else ()
    reduced = entered.backward(microbatch) if entered else ()
    weights = module.parameters
    return [
        *(Task(op, (), "weight") for op in gathered),
        *(Task(op, flow, "input") for op in casts),
        Task(by_input, (*flow, *(op.name for op in casts)), "input", uses=n * k),
        *(Task(op, (by_input.name,), "input") for op in reduced),
        Task(by_weight, (*flow, *beside, *(op.name for op in gathered)), "weight", completes=weights),
    ]
