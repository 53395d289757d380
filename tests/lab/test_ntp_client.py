"""HostDateTimeSystem of the lab: time servers are replaced as a whole, and what is not modelled is refused."""

import pytest
from pyVmomi import vim, vmodl


def config(*servers, **more):
    return vim.host.DateTimeConfig(ntpConfig=vim.host.NtpConfig(server=list(servers)), **more)


def test_servers_are_replaced_and_a_repetition_changes_nothing(soap):
    host, system = soap.host("esx01"), soap.host("esx01").configManager.dateTimeSystem
    assert list(host.config.dateTimeInfo.ntpConfig.server) == []
    for servers in (["10.0.0.1", "b.example"], ["10.0.0.1", "b.example"], ["c.example"], []):
        system.UpdateDateTimeConfig(config(*servers))
        assert list(host.config.dateTimeInfo.ntpConfig.server) == servers
        assert list(system.dateTimeInfo.ntpConfig.server) == servers
    system.UpdateDateTimeConfig(vim.host.DateTimeConfig(timeZone="UTC"))
    assert [c for _, c in soap.calls()] == ["UpdateDateTimeConfig"] * 3


@pytest.mark.parametrize(
    ("wanted", "fault"),
    [
        (config(""), vmodl.fault.InvalidArgument),
        (config("a b"), vmodl.fault.InvalidArgument),
        (config("a", timeZone="Mars"), vmodl.fault.InvalidArgument),
    ],
)
def test_what_is_refused_changes_nothing(soap, wanted, fault):
    system = soap.host("esx01").configManager.dateTimeSystem
    with pytest.raises(fault):
        system.UpdateDateTimeConfig(wanted)
    assert soap.calls() == []


def test_a_host_without_the_privilege(make_lab, new_client, quick_scenario):
    text = quick_scenario.read_text(encoding="utf-8") + "\nprivileges_denied: [Host.Config.DateTime]\n"
    client = new_client(make_lab(text))
    with pytest.raises(vim.fault.NoPermission) as refused:
        client.host("esx01").configManager.dateTimeSystem.UpdateDateTimeConfig(config("a.example"))
    assert refused.value.privilegeId == "Host.Config.DateTime"
