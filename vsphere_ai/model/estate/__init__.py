"""Knowledge of an estate beside its facts: malformed values, versions of hosts, remedies. Pure."""
