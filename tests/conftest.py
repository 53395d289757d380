"""For every test: the simulated farm as a process of its own, a pyVmomi client to it, how to repeat what failed."""

from __future__ import annotations

import gc
import http.client
import itertools
import re
import shutil
import ssl
import tempfile
import time
from importlib import resources

import pytest
from hypothesis import HealthCheck, settings
from support import compiled, fast, labs, passed, prefork, programs, seeds, workers
from support.gates import LONG
from support.labs import started
from support.places import ROOT
from support.required import required_module

from vsphere_ai.lab.front import shortcuts

# how fast examples are drawn says something about the machine only; tests take it over when they are imported
settings.register_profile("any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

QUICK = "timing: {boot_seconds: 0.3, task_seconds: 0.005, shutdown_seconds: 0.1, vmotion_seconds: 0.02}"


def pytest_report_header():
    return f"reliability: RELIABILITY={seeds.LEVELS[seeds.LEVEL] or 'small'} RELIABILITY_SEED={seeds.SEED}"


def pytest_addoption(parser):
    parser.addoption("--fast", action="store_true", help="only tests that start no lab and no server, and are quick")
    passed.options(parser)


def pytest_configure(config):
    gc.disable()  # while tests are collected nothing becomes garbage: looking for it takes a third of the time
    http.client.parse_headers = shortcuts.headers  # as in the copies of the tool
    passed.note(config)
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        compiled.ahead(config, [ROOT / "vsphere_ai", ROOT / "tools", ROOT / "tests"])
        shared = tempfile.mkdtemp(prefix="prefork-")
        config.add_cleanup(lambda: shutil.rmtree(shared, ignore_errors=True))
        prefork.share(shared)
        config.shared_folder = shared


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config, specs):
    workers.offer(config, specs, config.shared_folder)


def pytest_ignore_collect(collection_path, config):
    return passed.is_done(config, collection_path) or None


def pytest_collection_modifyitems(config, items):
    passed.leave_out(config, items)
    # what may take longest begins first: at the end it would go on alone, on one core
    items.sort(key=_limit, reverse=True)
    if config.getoption("--fast"):
        slow = [item for item in items if not fast.is_fast(item)]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if fast.is_fast(item)]


def _limit(item):
    """Seconds that a test may take, where it says so: longer than `timeout` of all."""
    mark = item.get_closest_marker("timeout")
    return max(mark.args[0] - 600, 0) if mark else 0


def pytest_collection_finish(session):
    """Thousands of collected tests are not looked through for garbage again and again."""
    if session.config.option.collectonly:
        programs.note(session)
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)


def pytest_report_teststatus(report):
    return labs.status(report)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    programs.require(item)


def pytest_terminal_summary(terminalreporter):
    programs.summary(terminalreporter)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Say how to repeat a failed test that draws by chance, or has more cases with RELIABILITY=full."""
    report = yield
    labs.say_once(report, call.excinfo and call.excinfo.value)
    module = vars(getattr(item, "module", object))
    if report.failed and not {"ALL", "FULL", "SEED", "by_level", "cases", "chance"}.isdisjoint(module):
        tier = f"RELIABILITY={seeds.LEVELS[seeds.LEVEL]} " if seeds.FULL else ""
        seed = module.get("SEED", seeds.SEED)
        again = f"{tier}RELIABILITY_SEED={seed} .venv/bin/python -m pytest '{item.nodeid}'"
        report.sections.append(("replay", again))
    return report


@pytest.fixture(scope="session")
def _states(tmp_path_factory):
    """Names of folders, counted here: `mktemp` would look through those of all tests before for each of them."""
    folder = tmp_path_factory.mktemp("states")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _own_state(_states, monkeypatch):
    """No test writes into, or is locked by, the journals and locks of the user or of another test."""
    folder = next(_states)
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("VSPHERE_AI_STATE_DIR", str(folder))


@pytest.fixture(autouse=True)
def _no_lab_in_fast_tests(request, monkeypatch):
    """A test that starts a lab does not belong to the fast ones: it says so by failing there."""
    if not request.config.getoption("--fast"):
        return
    from vsphere_ai.lab.front import process

    def refused(*_args, **_options):
        raise AssertionError("a fast test started a lab: name its module in tests/support/fast.py")

    monkeypatch.setattr(process, "start", refused)


@pytest.fixture(scope="session")
def quick_scenario(tmp_path_factory):
    """The default scenario with short waits, as a file."""
    text = resources.files("vsphere_ai.lab").joinpath("scenarios", "default.yml").read_text(encoding="utf-8")
    quick, changed = re.subn(r"(?m)^timing: .*$", QUICK, text)
    assert changed == 1
    path = tmp_path_factory.mktemp("scenario") / "quick.yml"
    path.write_text(quick, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def session_lab(tmp_path_factory, quick_scenario):
    """One lab for the whole session; use `lab`, which resets it."""
    from vsphere_ai.lab.front import process

    directory = tmp_path_factory.mktemp("lab")
    yield started(directory, quick_scenario)
    process.stop(directory)


@pytest.fixture
def lab(session_lab, monkeypatch):
    """The default farm, fresh: `lab.get("/lab/farm")`, `lab.get("/lab/ledger")`, files in `lab.directory`.

    `VSPHERE_AI_LAB_DIR` points to it, so an inventory with `lab: true` and `vsphere-ai lab status` find it.
    """
    session_lab.post("/lab/reset")
    monkeypatch.setenv("VSPHERE_AI_LAB_DIR", str(session_lab.directory))
    return session_lab


IDLE_LABS = 3
"""How many labs wait for the next test that wants their scenario: starting one takes longer than most tests do."""


@pytest.fixture(scope="session")
def idle_labs():
    """Labs that no test uses just now, by their scenario, the one that was used last at the end."""
    from vsphere_ai.lab.front import process

    idle = {}
    yield idle
    for lab in idle.values():
        process.stop(lab.directory)


@pytest.fixture
def make_lab(tmp_path_factory, idle_labs):
    """Labs of one's own: `make_lab(scenario_text)`, fresh, each another one."""
    from vsphere_ai.lab.front import process

    used = []

    def make(text):
        lab = idle_labs.pop(text, None)
        if lab is not None and process.find(lab.directory):
            lab.post("/lab/reset")
        else:
            directory = tmp_path_factory.mktemp("lab")
            (directory / "scenario.yml").write_text(text, encoding="utf-8")
            lab = started(directory, directory / "scenario.yml")
        used.append((text, lab))
        return lab

    yield make
    for text, lab in used:
        if text in idle_labs:
            process.stop(lab.directory)
            continue
        while len(idle_labs) >= IDLE_LABS:
            process.stop(idle_labs.pop(next(iter(idle_labs))).directory)
        idle_labs[text] = lab


class Client:
    """A plain pyVmomi client, logged in to a lab, with the few helpers tests need."""

    def __init__(self, lab, *, version="vim.version.v7_0_2_0", login=True):
        from pyVmomi import SoapStubAdapter, vim

        self.vim, self.lab = vim, lab
        self.context = ssl.create_default_context(cafile=str(lab.directory / "ca.pem"))
        self.stub = SoapStubAdapter(host="127.0.0.1", port=lab.port, sslContext=self.context, version=version)
        self.instance = vim.ServiceInstance("ServiceInstance", self.stub)
        self.content = self.instance.RetrieveContent()
        if login:
            password = (lab.directory / "password").read_text(encoding="utf-8").strip()
            self.session = self.content.sessionManager.Login("administrator@vsphere.local", password)

    def find(self, typ, name):
        """The object of a type with this name."""
        view = self.content.viewManager.CreateContainerView(self.content.rootFolder, [typ], True)
        try:
            return next(o for o in view.view if o.name == name)
        finally:
            view.DestroyView()

    def vm(self, name):
        return self.find(self.vim.VirtualMachine, name)

    def host(self, name):
        return self.find(self.vim.HostSystem, f"{name}.lab.local")

    def wait(self, task, seconds=LONG):
        """The result of a task; raises its fault."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            info = task.info
            if info.state == "success":
                return info.result
            if info.state == "error":
                raise info.error
            time.sleep(0.01)
        raise AssertionError(f"{task.info.descriptionId} still {task.info.state}")

    def until(self, true, seconds=LONG):
        """Wait until a function answers something true, and return it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = true()
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError("did not happen in time")

    def calls(self):
        """The ledger as (object, call) pairs."""
        return [(e["object"], e["call"]) for e in self.lab.get("/lab/ledger")["entries"]]

    def close(self):
        self.stub.DropConnections()


@pytest.fixture
def soap(lab):
    """A pyVmomi client logged in to the fresh default farm."""
    client = Client(lab)
    yield client
    client.close()


@pytest.fixture
def new_client():
    """Make further clients: `new_client(lab, version=..., login=False)`."""
    made = []

    def make(lab, **options):
        made.append(Client(lab, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture(scope="session")
@programs.uses_program("chromium")
def chromium():
    """One headless browser for all tests of pages: its driver does not run twice in a process."""
    required_module("playwright", "browser")
    required_module("axe_playwright_python", "browser")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=programs.path_of("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()
