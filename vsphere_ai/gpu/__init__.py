"""GPU knowledge: boards, MIG placement arithmetic, vGPU names, nvidia-smi text. Pure."""
