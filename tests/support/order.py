"""The order of a run on several workers: what takes longest comes first on every worker, so that none is last alone."""

from __future__ import annotations

from itertools import groupby, islice

SECONDS = {
    "tests/e2e/test_hosts_ssh.py": 20,
    "tests/e2e/test_large_vcenter.py": 15,
    "tests/e2e/test_maintenance_wait.py": 7,
    "tests/e2e/test_outage.py": 7,
    "tests/e2e/test_saved_plan.py": 5,
    "tests/honesty/test_honesty.py": 1,
    "tests/language/test_fuzz.py": 8,
    "tests/language/test_fuzz_cli.py": 8,
    "tests/reliability/test_crash_points.py": 5,
    "tests/reliability/test_faulty_links.py": 10,
    "tests/reliability/test_journal_damage.py": 4,
    "tests/reliability/test_kills.py": 6,
    "tests/reliability/test_lost_replies.py": 6,
    "tests/reliability/test_stateful.py": 8,
}
"""What one test of these modules takes, roughly. Each test may run on another worker, but for `TOGETHER`."""
FOLDERS = {"tests/e2e": 1.2, "tests/security": 0.8, "tests/docs": 0.5}
"""The same of the other modules in these folders, whose tests stay together; all others are short."""
TOGETHER = {"tests/e2e/test_large_vcenter.py", "tests/reliability/test_journal_damage.py"}
"""Their tests share something that is expensive to make."""


def seconds(module):
    """What one test of a module takes, roughly; 0 when it is short."""
    return SECONDS.get(module) or FOLDERS.get(module.rpartition("/")[0], 0)


def arranged(items, workers, name=lambda item: item.nodeid):
    """Return the tests in another order.

    pytest-xdist gives each worker a quarter of its share at the start, consecutive tests, and the rest in ever smaller
    pieces. So every such quarter begins with its part of the long tests.
    """
    if workers < 2:
        return list(items)
    module = {id(item): name(item).partition("::")[0] for item in items}
    long = [item for item in items if seconds(module[id(item)])]
    short = iter([item for item in items if not seconds(module[id(item)])])
    heads = [[] for _ in range(workers)]
    loads = [0] * workers
    for unit in sorted(_units(long, module), key=lambda u: -len(u) * seconds(module[id(u[0])])):
        least = loads.index(min(loads))
        heads[least] += unit
        loads[least] += len(unit) * seconds(module[id(unit[0])])
    size = max(len(items) // workers // 4, 2)
    found = []
    for head in heads:
        found += head[:size]
        found += islice(short, size - len(head[:size]))
    return [*found, *(item for head in heads for item in head[size:]), *short]


def _units(items, module):
    """What goes to one worker: a test, or all tests of a module."""
    for path, group in groupby(items, key=lambda item: module[id(item)]):
        tests = list(group)
        yield from [tests] if path in TOGETHER or path not in SECONDS else [[test] for test in tests]
