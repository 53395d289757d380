"""The playbook of an assessment: a play for all alike, what is to be chosen, and what is left with the reason."""

from __future__ import annotations

from support.estates import ESX1, ESX2, estate, host

from vsphere_ai.model.estate.host_corrections import HighPerformance, LogHosts, ServiceStopped
from vsphere_ai.model.finding import Finding
from vsphere_ai.report.training.assessment_fix import fix_of

FARM = estate(host(ESX1), host(ESX2))


def finding(rule, verdict="warn", *corrections, target=ESX1):
    return Finding(target, rule, verdict, "said", corrections=corrections)


def test_one_play_for_hosts_that_need_the_same_and_one_for_what_is_chosen():
    found = [
        finding("performance.power-policy", "warn", HighPerformance(ESX2), target=ESX2),
        finding("performance.power-policy", "warn", HighPerformance(ESX1)),
        finding("security.syslog", "fail", LogHosts(ESX2), target=ESX2),
        finding("security.ssh-off", "warn", ServiceStopped(ESX1, "TSM-SSH")),
        finding("security.shell-off", "warn", ServiceStopped(ESX1, "TSM")),
        finding("reliability.ha", "warn"),
        finding("cost.orphans", "pass"),
        finding("security.tools", "unknown"),
    ]
    made = fix_of(FARM, found, {"reliability.ha": "no resource type sets it"})
    assert made.left == ("reliability.ha",)
    assert made.corrected == ("performance.power-policy", "security.shell-off", "security.ssh-off", "security.syslog")
    lines = made.text.splitlines()
    assert "# left: reliability.ha: no resource type sets it" in lines
    assert sum(line.startswith("- hosts:") for line in lines) == 2
    chosen = next(
        i for i, line in enumerate(lines) if line.startswith("# write your own in place of CHOOSE A LOG HOST")
    )
    assert lines[chosen + 1] == "- hosts: esx02"
    stopped = "{running: false, policy: off}"
    assert f"  services: {{ssh: {stopped}, shell: {stopped}}}" in lines


def test_nothing_is_written_where_nothing_can_be_corrected():
    made = fix_of(FARM, [finding("reliability.ha")], {})
    assert (made.text, made.corrected, made.left) == ("", (), ("reliability.ha",))
