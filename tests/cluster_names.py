"""Names of clusters that tests of all families go through, each built once."""

from functools import cache

import topologies

VARIANTS = [
    "dgx_h100,nodes=2,nics=2,accelerator=h800",
    "dgx_h100,nodes=2,nics=32,nic_gbit=100,transport=efa",
    "dgx_a100,nodes=3,oversubscription=2",
    "dgx_b200,nodes=3,gpus_per_node=2,oversubscription=2",
    "gb200_nvl72,racks=2,gpus_per_rack=8,nics=2",
    "rail_optimized,nodes=5,nodes_per_unit=2",
    "rail_optimized,nodes=5,nodes_per_unit=2,nics=4,pxn=off",
    "fat_tree,nodes=9,routing=ecmp,nodes_per_leaf=2,uplinks=4,seed=7",
    "fat_tree,nodes=9,levels=3,nodes_per_leaf=2,leaves_per_pod=2,routing=ecmp,nics=4",
    "hpn,nodes=7,nodes_per_segment=2,segments_per_pod=2",
    "rail_optimized,nodes=3,nodes_per_unit=2,nics=4,gpus_per_node=4",
    "hpn,nodes=7,nodes_per_segment=2,segments_per_pod=2,routing=ecmp,nics=2",
    "torus,shape=2x3x4,accelerator=trainium2",
    "torus,shape=1x5,accelerator=tpu_v5e",
    "torus,shape=1",
    "torus,shape=2x3,accelerator=tpu_v5e,slices=2",
    "dragonfly,groups=1,switches_per_group=3",
    "dragonfly,groups=5,switches_per_group=1,gpus_per_node=8,nics=2",
    "full_mesh,nodes=2,gpus_per_node=4,accelerator=gh200,transport=slingshot,nic_gbit=200",
    "pcie_box,gpus=6,nodes=3",
    "ethernet,nodes=2,nic_gbit=25",
]

EVERY = [*topologies.names(), *VARIANTS]

built = cache(topologies.build)
