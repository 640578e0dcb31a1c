"""MaxText of 2024 on XLA.

XLA fuses what is elementwise and schedules collectives beside compute; Splash attention in Pallas.
"""

from types import MappingProxyType

from workloads.stack import Stack

PUBLISHED = Stack(
    name="maxtext_2024",
    fused_loss=True,
    graphs=True,
    distributed_optimizer=False,
    gradients=4.0,
    overlap_gradients=False,
    overlap_tensor=True,
    pruned_recompute=True,
    sources=MappingProxyType(
        {
            "fused_loss": "XLA fuses softmax and loss",
            "attention": "MaxText: Pallas flash attention",
            "graphs": "XLA launches a whole step as one program",
            "pruned_recompute": "JAX: jax.checkpoint drops from its repetition what the backward pass does not use",
            "gradients": "MaxText: base.yml, weight_dtype float32, which gradients share",
            "overlap_gradients": "MaxText: layers are scanned, and their gradients sum up across slices after the loop",
            "overlap_tensor": "XLA: collective matmul and latency-hiding scheduler",
            "distributed_optimizer": "MaxText: base.yml, ici_fsdp_parallelism puts all states in shares; no ZeRO-1",
        }
    ),
)


def build() -> Stack:
    """MaxText of 2024 on XLA."""
    return PUBLISHED
