"""Documents of training: launches, benchmarks and calculations."""
