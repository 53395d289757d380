"""Readers of what nvidia-smi prints, by structure. Pure."""
