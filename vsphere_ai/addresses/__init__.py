"""Address pools: which addresses sets of VMs hold in them, computed so that they are known before a VM exists. Pure."""
