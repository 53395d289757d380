"""Whether a run gets on: by its steps, by NCCL, and with the part of the farm that holds it up."""

from __future__ import annotations

import pytest

from vsphere_ai.model.nodes import Node, NodeGpu, Rail
from vsphere_ai.training.job import StepPattern
from vsphere_ai.training.progress import StepClock, judged, needs_second
from vsphere_ai.training.ras import Communicator, RankProcess, RankState, RasAnswer

STEPS = StepPattern()
NODES = tuple(
    Node(
        f"trn-0{n}",
        f"10.0.0.{n}",
        host=f"esx0{n}",
        gpus=tuple(NodeGpu(i, host_pci=f"0000:{n}{i}:00.0") for i in range(2)),
        rails=(Rail("rdma1", f"10.1.0.{n}"),),
    )
    for n in (1, 2)
)


def clock(age, mean=10.0, step=100, count=100):
    return {"trn-01": {"node-0": StepClock(step=step, count=count, age=age, mean=mean)}}


def answer(*counts, missing=(), dead=(), errors=(), network="10.0.0"):
    """Two ranks on each node; `counts` are the collectives that each has started."""
    ranks = [
        RankState(n, RankProcess(f"{network}.{1 + n // 2}", 1000 + n, n % 2), {"AllReduce": count}, 0)
        for n, count in enumerate(counts)
    ]
    ranks = [RankState(r.rank, r.process, r.counts, 6 if r.rank in errors else 0) for r in ranks]
    there = tuple(r for r in ranks if r.rank not in missing)
    gone = tuple(r for r in ranks if r.rank in missing)
    most = {"AllReduce": max((r.counts["AllReduce"] for r in there), default=0)}
    silent = tuple(r.process for r in gone)
    return RasAnswer(
        (Communicator("a", len(ranks), there, gone, most),),
        silent,
        tuple(r.process for r in gone if r.rank in dead),
        whole=True,
    )


STUCK = (answer(9, 9, 9, 8), answer(9, 9, 9, 8))
GOING = (answer(9, 9, 9, 8), answer(19, 19, 18, 18))


@pytest.mark.parametrize(
    ("clocks", "answers", "verdict", "ranks"),
    [
        ({}, (), "unknown", []),
        ({}, GOING, "going", []),
        ({}, (answer(9, 9, 9, 9),) * 2, "unknown", []),
        ({}, STUCK, "hung", [3]),
        (clock(29), (), "going", []),
        (clock(29), STUCK, "going", []),
        (clock(31), (), "stalled", []),
        (clock(31), STUCK, "hung", [3]),
        (clock(31), GOING, "stalled", []),
        (clock(5, mean=0.1), (), "going", []),
        (clock(31, mean=0.1), (), "stalled", []),
        (clock(900, mean=None, count=2), (), "unknown", []),
        (clock(900, mean=None, count=2), STUCK, "hung", [3]),
        (clock(31), (answer(9, 9, 9, 9, missing=[2]),), "hung", [2]),
        (clock(1), (answer(9, 9, 9, 9, missing=[2]),), "going", []),
        (clock(1), (answer(9, 9, 9, 9, missing=[2], dead=[2]),), "hung", [2]),
        (clock(31), (answer(9, 9, 9, 9, errors=[1]),), "hung", [1]),
        (clock(31), (answer(9, 9, 7, 7), answer(9, 9, 7, 7)), "hung", [2, 3]),
    ],
)
def test_verdicts(clocks, answers, verdict, ranks):
    found = judged(NODES, clocks, STEPS, answers)
    assert (found.verdict, [s.rank for s in found.suspects]) == (verdict, ranks)


@pytest.mark.parametrize("network", ["10.0.0", "10.1.0"])
def test_a_suspect_is_named_down_to_the_gpu_of_the_host(network):
    stuck = answer(9, 9, 9, 8, network=network)
    (found,) = judged(NODES, clock(60), STEPS, (stuck, stuck)).suspects
    assert (found.vm, found.host, found.gpu, found.pid) == ("trn-02", "esx02", "0000:21:00.0", 1003)
    assert "1 collective fewer" in found.reason


def test_logs_of_ranks_name_the_one_that_is_behind_where_nccl_does_not():
    own = {"rank-2": StepClock(step=41, count=41, age=70, mean=1.0)}
    others = {"rank-0": StepClock(step=42, count=42, age=69, mean=1.0)}
    found = judged(NODES, {"trn-01": others, "trn-02": own}, STEPS, silence="refused")
    assert [(s.rank, s.vm, s.host) for s in found.suspects] == [(2, "trn-02", "esx02")]
    assert (found.verdict, found.notes) == ("hung", ("NCCL was not asked about its ranks: refused",))


def test_an_address_of_no_node_stays_an_address():
    stuck = answer(9, 9, 9, 8, network="192.168.0")
    (found,) = judged(NODES, {}, STEPS, (stuck, stuck)).suspects
    assert (found.vm, found.host) == ("192.168.0.2", "")


@pytest.mark.parametrize(
    ("clocks", "first", "again"),
    [
        ({}, answer(1, 1, 1, 1), True),
        (clock(1), answer(1, 1, 1, 0), False),
        (clock(40), answer(1, 1, 1, 1), True),
        (clock(1), answer(1, 1, 1, 1, missing=[0]), True),
    ],
)
def test_nccl_is_asked_again_unless_the_steps_come_in_time(clocks, first, again):
    assert needs_second(NODES, clocks, STEPS, first) is again
