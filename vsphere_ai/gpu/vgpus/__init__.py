"""vGPUs: types, modes, and what one GPU takes beside what runs on it. Pure."""
