"""`python -m vsphere_ai` is the command line."""

from vsphere_ai.cli.main import run

run()
