"""Knowledge of an environment beside its facts: malformed values, versions of hosts, remedies. Pure."""
