"""Console of the commands: options, streams, signals, events and progress on a terminal."""
