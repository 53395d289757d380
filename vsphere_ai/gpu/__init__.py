"""GPU facts: boards, MIG placement arithmetic, vGPU types, nvidia-smi command lines and parsers. Pure."""
