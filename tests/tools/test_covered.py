"""Coverage is summed by room, with what processes of the tool have run, and the pure rooms have a least figure."""

from __future__ import annotations

import test_architecture

from tools import covered
from tools.covered import Covered, by_room, together


def of_file(lines, run, branches, taken):
    summary = {"num_statements": lines, "covered_lines": run, "num_branches": branches, "covered_branches": taken}
    return {"summary": summary}


def test_files_are_summed_by_room():
    files = {
        "vsphere_ai/gpu/mig/search.py": of_file(10, 9, 4, 2),
        "vsphere_ai/gpu/__init__.py": of_file(2, 2, 0, 0),
        "vsphere_ai/errors.py": of_file(5, 0, 2, 0),
    }
    rooms = by_room({"files": files})
    assert rooms == {"(root)": Covered(5, 0, 2, 0), "gpu": Covered(12, 11, 4, 2)}
    assert rooms["gpu"].of_branches == 50
    assert together(rooms.values()) == Covered(17, 11, 6, 2)
    assert Covered().of_lines == 100


def test_the_rooms_with_input_and_output_are_those_of_the_architecture():
    assert set(test_architecture.ROOMS_WITH_IO) - {"__main__"} == covered.WITH_INPUT_AND_OUTPUT
