"""What vCenter's tasks and events tell of an order to reboot: it was sent, it was not, or nothing can be said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from support.estates import ESX1

from vsphere_ai.errors import Denied, Unreachable
from vsphere_ai.execution.actions.context import Context
from vsphere_ai.execution.actions.events import MOST, was_ordered_to_reboot
from vsphere_ai.model.facts import Facts

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
AHEAD = timedelta(hours=2)  # of vCenter's clock
KNOWN = "Task:task-1"


def task(number, what, after):
    """A task of a host that was queued so many seconds after the run's own, by vCenter's clock."""
    queued = BEGAN + AHEAD + timedelta(seconds=after)
    return f"Task:task-{number}", {"info.descriptionId": f"HostSystem.{what}", "info.queueTime": queued.isoformat()}


OWN = task(1, "enterMaintenanceMode", 0)
BEFORE = task(0, "reboot", -60)
AFTER = task(2, "reboot", 30)
OTHER = task(3, "exitMaintenanceMode", 40)


class History:
    """A vCenter with these recent tasks of a host and these events; an exception is raised instead."""

    def __init__(self, recent, events):
        self.recent, self.events, self.filter = recent, events, None

    def service(self, _name):
        return "EventManager:EventManager"

    def now(self):
        return datetime.now(UTC) + AHEAD

    def read_objects(self, refs, paths):
        if isinstance(self.recent, Exception):
            raise self.recent
        known = dict(self.recent)
        if "Task" in paths:
            return {ref: Facts(ref, known[ref]) for ref in refs}
        return {ESX1.ref: Facts(ESX1.ref, {"recentTask": tuple(known)})}

    def call(self, ref, method, args):
        assert (ref, method) == ("EventManager:EventManager", "QueryEvents")
        self.filter = args["filter"]
        if isinstance(self.events, Exception):
            raise self.events
        infos = [{"task": r, **{n.partition(".")[2]: v for n, v in t.items()}} for r, t in self.events]
        return [{"_typeName": "TaskEvent", "info": info} for info in infos]


def told(recent, events):
    server = History(recent, events)
    context = Context(server, lambda _: None, lambda *_: (), {}, {})
    return was_ordered_to_reboot(context, ESX1, KNOWN, BEGAN.isoformat()), server


@pytest.mark.parametrize(
    ("recent", "events", "expected"),
    [
        ([OWN], [OWN], False),
        ([BEFORE, OWN, OTHER], [OWN, OTHER], False),
        ([OWN, AFTER], [OWN], True),
        ([OWN], [OWN, AFTER], True),
        ([], [OWN], False),  # it ended long ago
        ([OWN], Denied("no permission"), False),
        (Denied("no permission"), [OWN, AFTER], True),
        ([], [], None),  # nothing shows that tasks are seen at all
        ([OTHER], [], None),
        ([AFTER], [], None),
        (Unreachable("away"), Unreachable("away"), None),
        ([], [OWN, *[OTHER] * MOST], None),  # the reboot may be among what was left out
    ],
)
def test_an_order_to_reboot_is_known_by_its_task(recent, events, expected):
    assert told(recent, events)[0] is expected


def test_events_are_asked_for_by_vcenters_clock():
    asked = datetime.fromisoformat(told([OWN], [OWN])[1].filter["time"]["beginTime"])
    assert timedelta(seconds=-10) < asked - (BEGAN + AHEAD) < timedelta(0)
