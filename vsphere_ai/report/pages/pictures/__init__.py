"""Pictures of a page: GPUs, hosts, paths and timelines, as values that the formats draw. Pure."""
