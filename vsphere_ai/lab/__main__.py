"""Runs the lab in the foreground: ``python -m vsphere_ai.lab --directory DIR``."""

from __future__ import annotations

import sys

from vsphere_ai.lab.front.main import main

sys.exit(main())
