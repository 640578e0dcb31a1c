"""From a training step to a program, in passes that know little of each other.

shard layers (strategies) -> draft the ops of each action (`draft`) -> let strategies weave in gathers and
reductions -> insert messages between stages (`messages`) -> end the step (`finish`) -> orders (`lower`).
"""
