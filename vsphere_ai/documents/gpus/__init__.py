"""Documents of GPUs: MIG layouts and vGPU types."""
