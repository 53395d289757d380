"""GPU facts: boards, vGPU types, MIG placement, what one GPU can take, nvidia-smi command lines and parsers. Pure."""
