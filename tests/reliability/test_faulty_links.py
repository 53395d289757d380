"""Somebody else's chaos proxy on every connection: the run converges or can be resumed, and nothing happens twice."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest
import yaml
from reliability.harness import AGAIN, HERE, LIMITS, TUNE, Mission, Spec, effects
from support.gates import LONG
from support.seeds import cases, chance

WEATHERS = {
    "cut": {"corrupt": 0.01},
    "reset": {"reset": 0.01},
    "silent": {"drop": 0.001, "delay_ms": [0, 2]},
    "slow": {"delay_ms": [1, 15], "corrupt": 0.002},
    "storm": {"corrupt": 0.015, "drop": 0.0005, "delay_ms": [0, 5]},
}
# done; a step failed; unreachable; a host's health cannot be told; a run cannot write down what it has out; unknown
REPORTED = {0, 1, 5, 6, 8, 9}
SPEC = Spec(limits={**LIMITS, "answer": 2.0, "patience": 3.0, "run_patience": 3.0}, tune={**TUNE, "COMMAND_TIMEOUT": 4})


class Links:
    """The proxies, and an inventory that leads through them."""

    def __init__(self, seed, folder, lab):
        connection = yaml.safe_load((lab.directory / "connection.yml").read_text(encoding="utf-8"))
        vcenter, ssh = connection["vcenters"]["lab"], connection["ssh"]
        ports = [vcenter["port"], *(int(a.rpartition(":")[2]) for a in ssh["addresses"].values())]
        command = [sys.executable, str(HERE / "faulty_links.py"), str(seed), *map(str, ports)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        by_port = dict(zip(ports, self._answer(), strict=True))
        vcenter["port"] = by_port[vcenter["port"]]
        keys = (lab.directory / "known_hosts").read_text(encoding="utf-8")
        for host, address in ssh["addresses"].items():
            port = int(address.rpartition(":")[2])
            ssh["addresses"][host] = f"127.0.0.1:{by_port[port]}"
            keys = keys.replace(f"]:{port} ", f"]:{by_port[port]} ")
        (folder / "known_hosts").write_text(keys, encoding="utf-8")
        for name in ("password", "ssh_password", "ca.pem"):
            (folder / name).write_bytes((lab.directory / name).read_bytes())
            (folder / name).chmod(0o600)
        self.inventory = folder / "inventory.yml"
        self.inventory.write_text(json.dumps({k: connection[k] for k in ("vcenters", "ssh")}), encoding="utf-8")

    def _answer(self):
        line = self.process.stdout.readline()
        assert line, "the proxy died"
        return json.loads(line)

    def weather(self, rules):
        """Change what happens on the way; return (connections, bytes) of each link so far."""
        self.process.stdin.write((json.dumps(rules) if rules else "clean") + "\n")
        self.process.stdin.flush()
        return self._answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait(LONG)


@pytest.fixture
def linked(mission, tmp_path, request):
    if importlib.util.find_spec("faulty") is None:
        why = "the chaos proxy is not installed: pip install '.[test]'"
        pytest.fail(why) if os.environ.get("CI") else pytest.skip(why)
    links = Links(chance(request.node.name).randrange(1 << 30), tmp_path, mission.lab)
    through = Mission(mission.lab, mission.tool, inventory=links.inventory)
    through.wanted, through.done, through.seconds = mission.wanted, mission.done, mission.seconds
    through.settled = mission.settled
    yield through, links
    links.close()


def test_in_fair_weather_the_links_change_nothing(linked):
    mission, links = linked
    ended = mission.apply()
    mission.judge(ended.text, sessions=True, code=ended.code)
    assert all(connections for connections, _ in links.weather(None))


@pytest.mark.parametrize("number", cases(3, 10, 40))
def test_bad_links(linked, number):
    weather = sorted(WEATHERS)[number % len(WEATHERS)]
    mission, links = linked
    links.weather(WEATHERS[weather])
    ended = mission.apply(SPEC)
    print(f"{weather}, exit {ended.code}\n{ended.text}")
    tries = 0
    while ended.code and tries < 2:  # the weather does not change at once
        assert ended.code in REPORTED, ended.text
        twice = effects(mission.lab) - mission.done
        # each run that failed may have put back what it had out
        assert all(key[1] in AGAIN and count <= tries + 1 for key, count in twice.items()), f"{twice}\n{ended.text}"
        ended = mission.go_on(SPEC)
        print(f"then exit {ended.code}\n{ended.text}")
        tries += 1
    links.weather(None)
    if ended.code:
        mission.converged(tries=2, spec=SPEC, stopped=tries + 1)
    else:
        mission.judge(ended.text, code=ended.code, stopped=tries)
