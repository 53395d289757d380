"""`vsphere-ai rollback`: see `cli.resume`, which it shares everything with."""

from vsphere_ai.cli.resume import rollback as command

__all__ = ["command"]
