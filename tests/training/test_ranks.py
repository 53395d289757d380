"""Arithmetic of ranks, for any number of nodes and processes."""

from __future__ import annotations

import pytest
from support.seeds import chance

from vsphere_ai.training.on_node.rank import of_rank
from vsphere_ai.training.ranks import node_rank, ranks_of


def counts():
    random = chance("ranks")
    yield from ([1], [8], [2, 2], [4, 1, 3])
    for _ in range(200):
        yield [random.randint(1, 16) for _ in range(random.randint(1, 40))]


def test_every_process_has_one_rank_and_the_ranks_go_node_by_node():
    for processes in counts():
        ranks = ranks_of(processes)
        assert [r.rank for r in ranks] == list(range(sum(processes)))
        assert [(r.node_rank, r.local_rank) for r in ranks] == [
            (n, k) for n, own in enumerate(processes) for k in range(own)
        ]
        assert {r.world_size for r in ranks} == {sum(processes)}
        assert {r.nodes for r in ranks} == {len(processes)}
        assert all(r.local_size == processes[r.node_rank] and r.local_rank < r.local_size for r in ranks)


def test_the_node_of_a_rank_is_known_from_its_rank_where_all_nodes_have_as_many():
    random = chance("even ranks")
    for _ in range(200):
        size, nodes = random.randint(1, 16), random.randint(1, 64)
        assert all(node_rank(r.rank, r.local_size) == r.node_rank for r in ranks_of([size] * nodes))


def test_processes_that_mpirun_starts_get_the_same_variables_as_those_started_one_by_one():
    random = chance("bridge")
    for _ in range(100):
        size, nodes = random.randint(1, 8), random.randint(1, 16)
        for rank in ranks_of([size] * nodes):
            given = {
                "OMPI_COMM_WORLD_RANK": str(rank.rank),
                "OMPI_COMM_WORLD_SIZE": str(rank.world_size),
                "OMPI_COMM_WORLD_LOCAL_RANK": str(rank.local_rank),
                "OMPI_COMM_WORLD_LOCAL_SIZE": str(rank.local_size),
                "OMPI_COMM_WORLD_NODE_RANK": str(rank.local_rank),  # a process of its node, and not a node
                "MASTER_ADDR": "10.0.0.1",
                "MASTER_PORT": "29500",
            }
            assert {**given, **of_rank(given)}.items() >= rank.environment("10.0.0.1", 29500).items()
            assert of_rank(given)["NNODES"] == str(nodes)


@pytest.mark.parametrize("processes", [[], [0], [2, 0]])
def test_a_node_without_a_process_is_refused(processes):
    with pytest.raises(ValueError, match="at least one process"):
        ranks_of(processes)
