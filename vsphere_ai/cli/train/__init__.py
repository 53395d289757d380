"""Commands for training: health, launches, benchmarks, hand-over, files for other tools."""
