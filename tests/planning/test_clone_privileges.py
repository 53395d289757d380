"""A clone takes space on the datastore it is given, or on those of its source."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from vsphere_ai.model.facts import About, Estate, Facts
from vsphere_ai.model.state import Target
from vsphere_ai.planning import privileges

ABOUT = About("lab", "7.0.3", "1", "7.0.3.0", "uuid")
SOURCE, OWN, OTHER = "VirtualMachine:vm-1", "Datastore:own", "Datastore:other"


@pytest.mark.parametrize(("location", "store"), [({}, OWN), ({"datastore": OTHER}, OTHER)])
def test_space_is_needed_where_the_disks_go(location, store):
    objects = (
        Facts(SOURCE, {"name": "image", "config.template": True, "datastore": (OWN,)}),
        Facts(OWN, {"name": "own"}),
        Facts(OTHER, {"name": "other"}),
    )
    spec = {"location": location, "config": {}}
    step = SimpleNamespace(
        target=Target("vm", "train-01", "new:train-01"), source=SOURCE, folder="Folder:1", summary="clone", spec=spec
    )
    needs = privileges._of_clone(step, Estate(ABOUT, {f.ref: f for f in objects}))
    assert [n.ref for n in needs if n.privilege == privileges.SPACE] == [store]
