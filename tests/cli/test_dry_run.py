"""`--dry-run`: every command that changes something after a question has it."""

from __future__ import annotations

import re

from support.command_tree import leaves, options

READS = re.compile(r"(?i)changes nothing|nothing is changed")


def test_what_asks_before_a_change_or_takes_a_lock_can_be_tried_out():
    """What only reads says so in its help."""
    wrong = []
    for words, each in leaves().items():
        named = options(words)
        if named.keys() & {"--yes", "--lock"} and "--dry-run" not in named and not READS.search(each.help or ""):
            wrong.append(" ".join(words))
    assert not wrong
    assert {("apply",), ("rollback",), ("run", "unlock"), ("ipam", "release")} <= {
        words for words in leaves() if "--dry-run" in options(words)
    }
