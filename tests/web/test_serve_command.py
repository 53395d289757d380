"""`vsphere-ai serve` as a process against the lab: its pages, a run of another terminal, its end, and bad days."""

from __future__ import annotations

import re
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support import prefork
from support.gates import LONG, busy
from support.places import INVENTORY, PLAYBOOKS
from support.processes import Process, apply
from support.sites import TOKEN, Browser, entered, link_of, until

pytestmark = pytest.mark.lab
PLAY = "- {vms: train-04, tuning: {extra_config: {sched.cpu.halt: '%s'}}}\n"


@pytest.fixture
def playbook(tmp_path):
    path = tmp_path / "play.yml"
    path.write_text(PLAY % 0, encoding="utf-8")
    return path


@pytest.fixture
def serve(lab):
    """Start a server; it is ended with the test."""
    started = []

    def start(*arguments, inventory=INVENTORY, **environment):
        started.append(Process(lab, "serve", "-i", inventory, *arguments, **environment))
        return started[-1]

    yield start
    for each in started:
        each.send(signal.SIGKILL)
        each.process.wait(LONG)


def whole(browser, path="/"):
    """A page once vCenter has been read."""
    until(lambda: "the first reading is under way" not in browser.get("/").text)
    answer = browser.get(path)
    assert answer.status == 200
    return answer.text


def samples(text):
    return {
        (s.name, tuple(sorted(s.labels.items()))): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_every_page_shows_the_farm(lab, serve, playbook):
    browser = entered(serve(playbook))
    front = whole(browser)
    for words in ("LAB", "administrator@vsphere.local", "hosts ready", "VMs on", "last reading", "None yet"):
        assert words in front
    estate = whole(browser, "/estate")
    assert {"esx01.lab.local", "esx02.lab.local", "train-01", "Cluster gpu-a"} <= set(
        re.findall(r"esx0\d\.lab\.local|train-01|Cluster gpu-a", estate)
    )
    gpus = whole(browser, "/gpus")
    assert "GPUs that give no vGPUs" in gpus
    assert "esx01.lab.local, esx02.lab.local" in gpus
    assert re.search(r"<strong>0 of \d</strong> GPUs give vGPUs", front)
    found = samples(browser.get("/metrics").text)
    one = (("cluster", "gpu-a"), ("graphics_type", "shared"), ("host", "esx01.lab.local"))
    assert found["vsphere_ai_gpus_without_vgpus", one] == 2
    drift = whole(browser, "/drift")
    assert str(playbook) in drift
    assert "sched.cpu.halt" in drift
    assert "RDMA paths" in whole(browser, "/paths")
    assert "nothing was run here yet" in whole(browser, "/runs")


def test_a_run_of_another_terminal_is_followed_step_by_step(lab, serve):
    browser = entered(serve("--interval", 5))
    with browser.events() as stream:
        process, seen = apply(lab, PLAYBOOKS / "ai-ready-cluster.yml"), []
        while not (seen and seen[-1]["ended"]):
            _, kind, data = stream.next()
            if kind == "run":
                seen.append(data)
            if len(seen) == 1:
                page = browser.get(f"/runs/{data['run']}").text
                assert "under way" in page
                assert f'href="/runs/{data["run"]}">Reload' in page
        assert process.wait() == 0, process.said
    run = process.events()[0][1]["run"]
    assert {each["run"] for each in seen} == {run}
    done = [each["done"] for each in seen]
    assert done == sorted(done)
    assert len(set(done)) > 3
    assert (seen[0]["alive"], seen[-1]["alive"]) == (True, False)
    assert seen[-1]["done"] == seen[-1]["steps"] > 0
    page = browser.get(f"/runs/{run}").text
    assert "Reload" not in page
    assert "esx01.lab.local" in page
    assert run in browser.get("/runs").text
    until(lambda: "unusable" in browser.get("/gpus").text)  # the next reading
    assert "<svg" in browser.get("/gpus").text.partition("<main")[2]


def test_a_run_that_is_killed_is_no_longer_under_way(lab, serve):
    browser = entered(serve())
    with browser.events() as stream:
        process = apply(lab, PLAYBOOKS / "ai-ready-cluster.yml")
        run = stream.next()
        while run[1] != "run":
            run = stream.next()
        process.send(signal.SIGKILL)
        while run[1] != "run" or run[2]["alive"]:
            run = stream.next()
    assert run[2]["ended"] is False
    answer = browser.get("/runs").text
    assert "under way" not in answer.partition("<main")[2]
    process.process.wait(LONG)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_ends_with_a_signal_within_two_seconds_and_logs_out(lab, serve, number, code):
    process = serve()
    browser = entered(process)
    whole(browser)
    with browser.events():
        began = time.monotonic()
        process.send(number)
        assert process.wait(LONG) == code, process.said
        assert time.monotonic() - began < 2 * busy()
    assert next(i for i in lab.check()["invariants"] if i["name"] == "sessions")["ok"]
    with pytest.raises(OSError, match="refused"):
        browser.get("/")


def test_it_ends_while_vcenter_does_not_answer(lab, serve):
    lab.set_faults([{"on": "RetrievePropertiesEx", "do": "hang"}])
    process = serve()
    browser = entered(process)
    assert "the first reading is under way" in browser.get("/").text
    time.sleep(0.3)
    began = time.monotonic()
    process.send(signal.SIGINT)
    assert process.wait(LONG) == 130, process.said
    assert time.monotonic() - began < 2 * busy()


def test_standard_output_has_only_links_and_the_next_one_follows(serve):
    process = serve()
    first = link_of(process)
    entered(process)
    assert process.until(lambda out: len(out) == 2)
    second = link_of(process)
    assert second != first
    assert Browser(int(re.search(r":(\d+)/", second)[1])).enter(second).status == 303
    assert all(re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", line) for line in process.out)


def test_a_port_and_a_token_of_prometheus(serve, playbook, lab):
    process = serve(playbook, "--metrics-token", "env:PROMETHEUS", PROMETHEUS=TOKEN)
    browser = entered(process)
    whole(browser)
    prometheus = Browser(browser.port)
    answer = prometheus.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.headers["content-type"].startswith("text/plain")
    found = samples(answer.text)
    assert found["vsphere_ai_up", ()] == 1
    assert found["vsphere_ai_hosts", (("cluster", "gpu-a"), ("state", "ready"))] == 3
    assert found["vsphere_ai_drift_changes", (("playbook", str(playbook)),)] == 1
    assert TOKEN not in process.said
    taken = serve("--port", browser.port)
    assert taken.wait(LONG) == 64
    assert f"port {browser.port}" in taken.said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--metrics-token", "env:SHORT"), "16 characters"),
        (("--interval", "1"), "5"),
        (("--port", "70000"), "65535"),
        (("/no/such/playbook.yml",), "playbook.yml"),
    ],
)
def test_options_that_cannot_be(serve, arguments, said):
    process = serve(*arguments, SHORT="short")
    assert process.wait(LONG) == 64, process.said
    assert said in process.said
    assert process.out == []


def test_a_refused_login_is_tried_once(lab, serve, tmp_path):
    inventory = tmp_path / "wrong.yml"
    inventory.write_text(
        f"vcenters: {{vc: {{address: 127.0.0.1, port: {lab.port}, username: administrator@vsphere.local,"
        f" password: 'env:PW', tls: {{ca_file: '{lab.directory}/ca.pem'}}}}}}\n",
        encoding="utf-8",
    )
    process = serve(inventory=inventory, PW="not-the-password")
    browser = entered(process)
    text = whole(browser)
    assert "the login was refused, and accounts lock" in text
    assert "not-the-password" not in text
    tried = logins(lab)
    time.sleep(1)
    assert logins(lab) == tried == 1
    assert samples(browser.get("/metrics").text)["vsphere_ai_up", ()] == 0
    assert process.process.poll() is None


def test_many_browsers_are_one_session_and_read_nothing(lab, serve):
    process = serve()
    first = entered(process)
    whole(first)
    before = requests(lab)
    browsers = [first, *(entered(process) for _ in range(7))]
    pages = ("/", "/estate", "/gpus", "/paths", "/drift", "/runs", "/metrics")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda b: [b.get(p).status for p in pages], browsers))
    assert found == [[200] * len(pages)] * 8
    assert requests(lab) == before


def requests(lab):
    """How many calls the lab was asked for, by their names."""
    return lab.get("/lab/traffic")["calls"]


def logins(lab):
    return requests(lab).get("Login", 0)


def test_nothing_of_the_web_is_imported_by_other_commands():
    program = (
        "import sys; from vsphere_ai.cli.main import main; code = main(sys.argv[1:])\n"
        "print([m for m in ('starlette', 'uvicorn', 'prometheus_client', 'h11', 'anyio') if m in sys.modules])"
    )
    for arguments in (["--help"], ["serve", "--help"], ["plan", "--help"], ["run", "list"]):
        done = prefork.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=LONG)
        assert done.stdout.splitlines()[-1] == "[]", (arguments, done.stdout)
