"""What a job needs on its nodes before it starts, by mode: ports on which it listens, programs, scripts."""

from __future__ import annotations

import pytest
from training.nodes import job, launched, nodes

from vsphere_ai.training.launch import programs_of
from vsphere_ai.training.launchers import launch


@pytest.mark.parametrize(
    ("mode", "count", "options", "listens"),
    [
        ("torchrun", 2, {}, [(0, 29500)]),
        ("torchrun", 1, {}, []),
        ("torchrun", 2, {"torchrun": {"elastic": "1:2"}}, [(0, 29400)]),
        ("torchrun", 2, {"torchrun": {"elastic": "1:2", "rendezvous_port": 29401}}, [(0, 29401)]),
        ("lightning", 2, {}, [(0, 29500)]),
        ("lightning", 1, {}, []),
        ("lightning", 1, {"lightning": {"via": "env"}, "port": 6105}, [(0, 6105)]),
        ("env", 2, {"port": 6105}, [(0, 6105)]),
        ("env", 1, {"processes_per_node": 1}, []),
        ("mpi", 2, {}, [(0, 29500)]),
        ("deepspeed", 2, {}, [(0, 29500)]),
        ("accelerate", 2, {}, [(0, 29500)]),
        ("tensorflow", 2, {"tensorflow": {"parameter_servers": 2}}, [(0, 2222), (1, 2222), (1, 2223), (0, 2223)]),
    ],
)
def test_ports_on_which_a_job_listens(mode, count, options, listens):
    assert list(launched(mode, count, **options).listens) == listens


@pytest.mark.parametrize(
    ("mode", "first", "second"),
    [
        ("torchrun", {"python3", "torchrun"}, {"python3", "torchrun"}),
        ("env", {"python3"}, {"python3"}),
        ("mpi", {"python3", "mpirun", "ssh"}, {"python3"}),
        ("deepspeed", {"python3", "deepspeed"}, {"python3", "deepspeed"}),
    ],
)
def test_programs_that_a_node_has_to_have(mode, first, second):
    found = programs_of(launched(mode))
    assert [set(own) for own in found.values()] == [first, second]


@pytest.mark.parametrize(
    ("via", "programs"), [("pdsh", {"ssh", "pdsh"}), ("openmpi", {"ssh", "ompi_info", "mpirun"}), ("no_ssh", set())]
)
def test_programs_that_deepspeed_runs_and_where_it_logs_in(via, programs):
    made = launched("deepspeed", deepspeed={"via": via})
    first, second = programs_of(made).values()
    assert set(first) == {"python3", "deepspeed", *programs}
    assert set(second) == ({"python3", "deepspeed"} if via == "no_ssh" else {"python3"})
    assert made.logs_in_everywhere == (via != "no_ssh")
    assert any("log in over SSH to the others and to itself" in note for note in made.notes) == (via != "no_ssh")
    assert not launched("deepspeed", 1, deepspeed={"via": via}).logs_in_everywhere


def test_an_elastic_job_says_its_fewest_nodes():
    assert launched("torchrun", 3, torchrun={"elastic": "2:4"}).fewest == 2
    assert launched("lightning", 3, torchrun={"elastic": "2:4"}).fewest == 2
    assert launched("torchrun", 3).fewest is None


def test_scripts_are_the_files_that_run():
    assert job().scripts == ("/shared/train.py",)
    assert job(resume_cmd=["/shared/again.py", "--resume"]).scripts == ("/shared/train.py", "/shared/again.py")
    assert job(command=["bash", "/shared/run.sh", "/data/a.bin", "/x/{rank}.py"]).scripts == ("/shared/run.sh",)
    assert job(module="train").scripts == ()


def test_nodes_without_a_nic_for_training_are_a_note():
    def notes(rails, **more):
        return launch(job(**more), "env", nodes(2, rails=rails), "run1").notes

    assert [n for n in notes(0, nccl="auto") if "no NIC" in n or "no node has a NIC" in n]
    assert notes(1, nccl="auto") == notes(0, nccl="off") == ()
    without, having = nodes(3, rails=0), nodes(3, rails=1)
    (note,) = launch(job(nccl="auto"), "env", (having[0], without[1], having[2]), "run1").notes
    assert (without[1].vm in note, having[0].vm in note, having[2].vm in note) == (True, False, False)
    assert launch(job(nccl="auto"), "env", without[:1], "run1").notes == ()


@pytest.mark.parametrize("pattern", ["step", "step (", "(?P<x>"])
def test_a_pattern_of_steps_without_a_number_is_refused(pattern):
    with pytest.raises(ValueError, match=r"group|regular expression"):
        job(steps={"pattern": pattern})
