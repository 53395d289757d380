"""NCCL settings from the roles of NICs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from training.nodes import launched, node

from vsphere_ai.model.nodes import Rail
from vsphere_ai.training.job import Nccl
from vsphere_ai.training.nccl_env import nccl_settings


def settings(of, options=None, others=()):
    return {s.name: s.value for s in nccl_settings(of, options or Nccl(), (of, *others))}


def with_rails(*rails):
    return replace(node(0), rails=rails)


def test_exactly_the_devices_of_the_rails_in_their_order():
    of = with_rails(
        Rail("ens256", number=2, rdma_device="mlx5_1", port=2), Rail("ens224", number=1, rdma_device="mlx5_4")
    )
    found = settings(of)
    assert found["NCCL_IB_HCA"] == "=mlx5_4:1,mlx5_1:2"
    assert found["NCCL_SOCKET_IFNAME"] == "=ens192"
    assert found["NCCL_CROSS_NIC"] == "0"
    assert found["NCCL_IB_GID_INDEX"] is None


@pytest.mark.parametrize(
    ("indexes", "option", "value"),
    [((3, 3), "set", "3"), ((3, 3), "auto", None), ((3, 5), "set", None), ((3, None), "set", None)],
)
def test_the_gid_index_only_where_it_is_asked_for_and_the_same(indexes, option, value):
    of = with_rails(*(Rail(f"r{n}", number=n, rdma_device=f"mlx5_{n}", gid_index=i) for n, i in enumerate(indexes)))
    assert settings(of, Nccl(gid_index=option))["NCCL_IB_GID_INDEX"] == value


def test_over_tcp_traffic_takes_the_rails():
    of = with_rails(Rail("ens224", number=1), Rail("ens256", number=2))
    assert settings(of, Nccl(transport="tcp")) == {
        "NCCL_SOCKET_IFNAME": "=ens224,ens256",
        "NCCL_OOB_NET_IFNAME": "=ens192",
        "NCCL_IB_DISABLE": "1",
    }
    assert settings(replace(node(0, rails=0), interface="")) == {"NCCL_SOCKET_IFNAME": None}


def test_a_rail_whose_device_is_not_known_is_not_left_out():
    of = with_rails(Rail("ens224", number=1, rdma_device="mlx5_0"), Rail("ens256", number=2))
    found = settings(of, Nccl(gid_index="set"))
    assert (found["NCCL_IB_HCA"], found["NCCL_SOCKET_IFNAME"]) == (None, "=ens192")
    assert found["NCCL_IB_GID_INDEX"] is None


def test_rails_that_differ_between_the_nodes_may_be_crossed():
    assert "NCCL_CROSS_NIC" not in settings(node(0, rails=2), others=(node(1, rails=1),))
    assert "NCCL_CROSS_NIC" not in settings(node(0, rails=1))
    assert settings(node(0, rails=2), others=(node(1, rails=2),))["NCCL_CROSS_NIC"] == "0"


def test_what_only_the_job_can_say():
    options = Nccl(traffic_class=106, gdr_level="SYS", queue_pairs=4, topology_file="/etc/topo.xml", debug="INFO")
    found = settings(node(0), options)
    assert {k: found[k] for k in list(found)[-5:]} | {"NCCL_NET_GDR_LEVEL": found["NCCL_NET_GDR_LEVEL"]} == {
        "NCCL_IB_TC": "106",
        "NCCL_IB_QPS_PER_CONNECTION": "4",
        "NCCL_NET_GDR_LEVEL": "SYS",
        "NCCL_TOPO_FILE": "/etc/topo.xml",
        "NCCL_DEBUG": "INFO",
    }
    assert settings(node(0))["NCCL_NET_GDR_LEVEL"] is None
    assert all(s.reason for s in nccl_settings(node(0), options))


def test_variables_of_the_job_win():
    made = launched("env", nccl="auto", env={"NCCL_IB_HCA": "mlx5_9"})
    assert made.nodes[0].processes[0].env["NCCL_IB_HCA"] == "mlx5_9"
    assert "NCCL_IB_HCA" not in {s.name for s in made.nodes[0].nccl}
    assert not launched("env").nodes[0].nccl
