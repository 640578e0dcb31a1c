"""The backward pass, derived from the forward pass by transposing each module.

A linear map's backward is its transpose: an all-gather becomes a reduce-scatter and the reverse, an identity
becomes an all-reduce and the reverse, a product of weights becomes two products. Input gradients and weight
gradients stay apart, so that a schedule may run them as one action (B) or as two (I and W).
"""

from workloads.layers import Layer, Task
from workloads.modules import Attention, Boundary, Lookup, Loss, Matmul, Microbatch, Module, Pointwise
from workloads.ops import Op

TRANSPOSED = {
    "all_gather": "reduce_scatter",
    "reduce_scatter": "all_gather",
    "identity": "all_reduce",
    "all_reduce": "identity",
    "none": "none",
}
LOSS_BACKWARD_BYTES = (8, 4)
"""Bytes read and written per logit by a cross-entropy backward: 12 in all."""


def backward(layer: Layer, microbatch: Microbatch) -> list[Task]:
    """The backward tasks of a layer, last module first; input and weight gradients told apart by `part`.

    >>> from workloads import models
    >>> from workloads.layers import transformer_layer
    >>> tasks = backward(transformer_layer(models.build("llama3_8b")), Microbatch(8192, 8192))
    >>> [task.op.name for task in tasks if task.part == "weight"]
    ['down.weight_gradient', 'gate_up.weight_gradient', 'proj.weight_gradient', 'qkv.weight_gradient']
    """
    tasks: list[Task] = []
    flow = ""
    modules = list(layer.modules)
    while modules:
        module = modules.pop()
        if isinstance(module, Matmul):
            tasks += _product(module, _entered(modules), flow, microbatch)
        else:
            tasks += [_single(module, op, flow) for op in _transposed(module, microbatch)]
        flow = next((task.op.name for task in reversed(tasks) if task.part == "input"), flow)
    return tasks


def _entered(modules: list[Module]) -> Boundary | None:
    """The boundary right before a product, taken off the modules that are left."""
    match modules:
        case [*_, Boundary(direction="enter") as boundary]:
            modules.pop()
            return boundary
    return None


def _single(module: Module, op: Op, flow: str) -> Task:
    """The one backward op of a module that is no product; a look-up has no input gradient."""
    weights = module.parameters
    return Task(op, (flow,), "weight" if isinstance(module, Lookup) else "input", weights, weights)


def _transposed(module: Module, microbatch: Microbatch) -> tuple[Op, ...]:
    """The backward op of a module that is no product, if it has one."""
    name = f"{module.name}.backward"
    match module:
        case Pointwise():
            traffic = module.traffic
            op = microbatch.stream(name, "elementwise", traffic.backward_read, traffic.backward_write)
            return (op,)
        case Attention():
            return (module.kernel(microbatch, name, "attention_backward", (2, 3, 2)),)
        case Boundary():
            return module.collective(microbatch, name, TRANSPOSED[module.kind])
        case Lookup():
            return (microbatch.stream(name, "embedding", 2 * module.hidden, module.hidden),)
        case Loss():
            return (module.kernel(microbatch, name, LOSS_BACKWARD_BYTES),)
    raise TypeError(f"{type(module).__name__} has no transpose")


def _product(module: Matmul, entered: Boundary | None, flow: str, microbatch: Microbatch) -> list[Task]:
    """Input gradient, then weight gradient, with the boundary's collectives overlapped as in Megatron-LM.

    With sequence parallelism the gathered input was not kept: its all-gather runs beside the input gradient,
    and the reduce-scatter of that gradient beside the weight gradient. Without it, the all-reduce does.
    """
    m, n, k = microbatch.tokens, module.width, module.inputs
    by_input = microbatch.gemm(f"{module.name}.input_gradient", m, k, n)
    by_weight = microbatch.gemm(f"{module.name}.weight_gradient", k, n, m)
    again, reduced = _overlapped(entered, microbatch)
    weights = module.parameters
    return [
        *(Task(op, (), "weight") for op in again),
        Task(by_input, (flow,), "input", uses=n * k),
        *(Task(op, (by_input.name,), "input") for op in reduced),
        Task(by_weight, (flow, *(op.name for op in again)), "weight", completes=weights),
    ]


def _overlapped(entered: Boundary | None, microbatch: Microbatch) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
    """The re-gather of a product's input and the reduction of its input gradient."""
    if entered is None:
        return (), ()
    again = entered.kind if entered.kind == "all_gather" else "none"
    return (
        entered.collective(microbatch, f"{entered.name}.again", again),
        entered.collective(microbatch, f"{entered.name}.backward", TRANSPOSED[entered.kind]),
    )
