"""nccl-tests: command lines, readers of what they print, and checks of a run. Pure."""
