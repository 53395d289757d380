"""The recipes for CI: their commands are carried out against the lab, with a forge on loopback that keeps comments."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from xml.etree import ElementTree

import pytest
import yaml
from integrations.forge import LIMIT, Forge
from support.containers import is_image
from support.gates import LONG
from support.places import ROOT

SOURCE = ROOT / "integrations" / "ci"
SCRIPT = SOURCE / "vsphere_ai_ci.py"
GITHUB = yaml.safe_load((SOURCE / "github" / "vsphere-ai.yml").read_text("utf-8"))
GITLAB = yaml.safe_load((SOURCE / "gitlab" / "vsphere-ai.gitlab-ci.yml").read_text("utf-8"))
PLAYBOOK = "playbooks/hardware-upgrade.yml"
MARKER = f"<!-- vsphere-ai plan {PLAYBOOK} -->"


def steps(job):
    return GITHUB["jobs"][job]["steps"]


# -- the recipes as files


def test_no_value_from_outside_becomes_part_of_a_command():
    """An expression in `run` is put into the script before the shell reads it; variables are not."""
    for job in GITHUB["jobs"]:
        for step in steps(job):
            assert "${{" not in step.get("run", "")
    for name, job in GITLAB.items():
        for line in [*job.get("script", ()), *job.get("after_script", ())] if name != "variables" else ():
            assert not re.search(r"(?<!\")\$\w+(?!\")", line), f"{name}: a variable without quotes: {line}"
            assert "eval" not in line


def test_a_job_on_github_has_no_more_than_it_needs():
    assert GITHUB["permissions"] == {}
    assert {name: set(job["permissions"]) for name, job in GITHUB["jobs"].items()} == {
        "plan": {"contents", "pull-requests", "security-events"},
        "apply": {"contents"},
        "verify": {"contents"},
    }
    on = GITHUB[True]  # YAML 1.1 reads the key `on` so; GitHub does not
    assert "pull_request_target" not in on
    for job in GITHUB["jobs"]:
        with_secrets = [s for s in steps(job) if "secrets." in str(s)]
        assert {s["name"] for s in with_secrets} == {job.capitalize()}
        checkout = steps(job)[0]
        assert checkout["with"]["persist-credentials"] is False


HERE, FORK = {"head": {"repo": {"full_name": "ai/farm"}}}, {"head": {"repo": {"full_name": "stranger/farm"}}}
GONE = {"head": {"repo": {"full_name": ""}}}
"""Of pull requests: a fork that was deleted has no name."""


def expression(text, **github):
    """What an expression of GitHub gives: names with dots, strings, ==, && and ||, as its documentation has them."""
    assert re.fullmatch(r"(?:[\w.]+|'[\w.-]*'|==|&&|\|\||[() \n])+", text), text

    def value(match):
        name = match[0]
        if name.startswith("'"):
            return name
        found = {"github": {"repository": "ai/farm", **github}, "needs": {"plan": {"outputs": {"changes": "true"}}}}
        for part in name.split("."):
            found = found.get(part, "") if isinstance(found, dict) else ""
        return repr(found)

    python = re.sub(r"'[^']*'|[a-z][\w.]*", value, text).replace("&&", " and ").replace("||", " or ")
    return eval(" ".join(python.split()), {"__builtins__": {}})  # of the recipe in this repository


EVENTS = {
    "fork": {"event_name": "pull_request", "event": {"pull_request": FORK}},
    "fork that is gone": {"event_name": "pull_request", "event": {"pull_request": GONE}},
    "branch": {"event_name": "pull_request", "event": {"pull_request": HERE}},
    "main": {"event_name": "push", "event": {}},
    "night": {"event_name": "schedule", "event": {}},
}
RUNS = {
    "fork": {},
    "fork that is gone": {},
    "branch": {"plan": "vsphere-pull-request"},
    "main": {"plan": "vsphere-plan", "apply": "vsphere-production"},
    "night": {"verify": "vsphere-plan"},
}
"""Jobs that an event starts, each with the environment that gives it its passwords."""


@pytest.mark.parametrize("event", EVENTS)
def test_which_branch_gets_which_password_on_github(event):
    """A stranger's branch starts nothing; another one waits for the reviewers of an environment of its own."""
    runs = {}
    for name, job in GITHUB["jobs"].items():
        if expression(job["if"], **EVENTS[event]):
            own = re.sub(r"^\$\{\{(.*)\}\}$", r"\1", job["environment"]).strip()
            runs[name] = expression(own, **EVENTS[event]) if own != job["environment"] else own
    assert runs == RUNS[event]
    assert GITHUB[True]["push"]["branches"] == ["main"]
    assert "secrets." not in str(GITHUB["env"]) + str([job.get("env") for job in GITHUB["jobs"].values()])


@pytest.mark.parametrize(
    ("variables", "jobs"),
    [
        ({"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "9"}, set()),
        ({"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": ""}, set()),
        ({"CI_PIPELINE_SOURCE": "merge_request_event", "CI_MERGE_REQUEST_SOURCE_PROJECT_ID": "3"}, {"vsphere-plan"}),
        ({"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "theirs"}, set()),
        ({"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "main"}, {"vsphere-plan", "vsphere-apply"}),
        ({"CI_PIPELINE_SOURCE": "schedule", "CI_COMMIT_BRANCH": "main"}, {"vsphere-verify"}),
    ],
)
def test_which_branch_gets_which_password_on_gitlab(variables, jobs):
    own = {"CI_PROJECT_ID": "3", "CI_DEFAULT_BRANCH": "main", "CI_COMMIT_BRANCH": "", **variables}

    def holds(rule):
        assert re.fullmatch(r'(?:\$\w+|"\w+"|==|&&| )+', rule), rule
        python = re.sub(r"\$(\w+)", lambda match: repr(own.get(match[1], "")), rule)
        return eval(python.replace("&&", " and "), {"__builtins__": {}})  # of the recipe in this repository

    started = {name for name, job in GITLAB.items() if any(holds(rule["if"]) for rule in job.get("rules", ()))}
    assert started == jobs
    text = (SOURCE / "gitlab" / "vsphere-ai.gitlab-ci.yml").read_text("utf-8")
    assert "PASSWORD" not in str(GITLAB), "no value of a password is in the recipe"
    assert "masked and PROTECTED" in text


def test_actions_and_images_are_named_by_what_they_are():
    """A tag may be moved to another commit or image, which then has the passwords of the job."""
    lines = re.findall(r"(?m)^ *(?:- )?uses: (.+)$", (SOURCE / "github" / "vsphere-ai.yml").read_text("utf-8"))
    assert len(lines) == sum("uses" in step for job in GITHUB["jobs"] for step in steps(job)) == 7
    for line in lines:
        assert re.fullmatch(r"[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    names = {line.split("@")[0]: line for line in lines}
    assert len(names) == len(set(lines)), "one commit of each"
    images = [job["image"] for job in GITLAB.values() if "image" in job]
    assert images == ["docker.io/library/python:3.13-slim@$PYTHON_DIGEST"]
    assert "PYTHON_DIGEST" not in GITLAB["variables"], "it has no value that could be out of date"
    for value, works in (("", False), ("latest", False), ("sha256:" + 64 * "0", True)):
        assert is_image(images[0].replace("$PYTHON_DIGEST", value)) is works


def test_apply_is_approved_is_alone_and_is_not_cancelled():
    apply = GITHUB["jobs"]["apply"]
    assert apply["environment"] == "vsphere-production"
    assert apply["needs"] == "plan"
    assert "'push'" in apply["if"]
    assert "changes == 'true'" in apply["if"]
    assert GITHUB["concurrency"]["cancel-in-progress"] is False
    manual = GITLAB["vsphere-apply"]
    assert [rule["when"] for rule in manual["rules"]] == ["manual"]
    assert manual["resource_group"] == "vsphere-production"
    assert manual["interruptible"] is False
    assert manual["needs"] == ["vsphere-plan"]
    # what the script writes is what the artifacts are
    names = {name.replace("plan", kind) for name in script().REPORTS.values() for kind in ("plan", "run")}
    written = {f"vsphere-ai-out/{name}" for name in (*names, "plan.terraform.json")}
    for job in ("vsphere-plan", "vsphere-apply"):
        assert set(GITLAB[job]["artifacts"]["reports"].values()) <= written


def test_plain_python_and_the_version_of_the_product():
    source = SCRIPT.read_text("utf-8")
    imported = {line.split()[1].partition(".")[0] for line in source.splitlines() if re.match("(import|from) ", line)}
    assert imported <= set(sys.stdlib_module_names)
    from vsphere_ai import __version__

    for settings in (GITHUB["env"], GITLAB["variables"]):
        assert settings["WHEEL"].endswith(f"/vsphere_ai-{__version__}-py3-none-any.whl")


def test_what_gets_the_passwords_comes_from_no_registry():
    """vsphere-ai is not on PyPI, where anyone could take its name: by a file, and others by their checksums."""
    installs = [step["run"] for job in GITHUB["jobs"] for step in steps(job) if step.get("name") == "Install"]
    installs.append("\n".join(GITLAB[".vsphere-ai"]["before_script"]))
    assert len(installs) == 4
    for text in installs:
        lines = [line.partition(" install ")[2] for line in text.splitlines() if " install " in line]
        assert lines == ['--quiet --require-hashes -r "$LOCK"', '--quiet --no-index --no-deps "$WHEEL"']


# -- the recipes at work


def script():
    spec = spec_from_file_location("vsphere_ai_ci", SCRIPT)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(lab, tmp_path):
    """A checkout with the recipes, whose commands are run as a runner does: bash, and variables."""
    for part in ("playbooks", "inventories", "integrations"):
        shutil.copytree(ROOT / part, tmp_path / "work" / part)
    program = tmp_path / "bin" / "vsphere-ai"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m vsphere_ai "$@"\n', "utf-8")
    program.chmod(0o755)
    return Project(tmp_path)


class Project:
    def __init__(self, folder):
        self.folder, self.work, self.out = folder, folder / "work", folder / "work" / "vsphere-ai-out"
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("GITHUB_", "GITLAB_", "CI_"))},
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PLAYBOOK": PLAYBOOK,
            "INVENTORY": "inventories/lab.yml",
            "OUT": "vsphere-ai-out",
        }

    def run(self, line, **variables):
        done = subprocess.run(
            ["bash", "-e", "-c", line], cwd=self.work, env={**self.environment, **variables}, capture_output=True,
            text=True, timeout=LONG, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def step(self, job, name, **variables):
        """Carry out a step of the workflow of GitHub."""
        (found,) = [step for step in steps(job) if step.get("name") == name]
        return self.run(found["run"], **variables)


@pytest.fixture
def forge():
    made = []

    def make(kind):
        made.append(Forge(kind))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def github(project, forge, tmp_path):
    """A forge, with the variables that GitHub sets for the job of a pull request."""
    server = forge("github")
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}), "utf-8")
    project.environment |= {
        "GITHUB_API_URL": server.url,
        "GITHUB_REPOSITORY": "ai/farm",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_TOKEN": "t0ken",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    return server


@pytest.mark.lab
def test_the_workflow_of_github_plans_comments_and_applies_what_was_planned(lab, project, github, tmp_path):
    foreign = github.add(f"{MARKER}\nI have planned this, trust me.", own=False)
    for number in range(120):
        github.add(f"comment {number}", own=False)
    code, printed = project.step("plan", "Plan")
    assert code == 0, printed
    assert (tmp_path / "output").read_text() == "changes=true\n"
    assert json.loads((project.out / "plan.terraform.json").read_text()) == {"create": 0, "update": 4, "delete": 0}
    assert ElementTree.parse(project.out / "plan.junit.xml").getroot().tag == "testsuites"
    assert json.loads((project.out / "plan.sarif").read_text())["version"] == "2.1.0"
    for again in (False, True):
        code, printed = project.step("plan", "Comment")
        assert code == 0, printed
        assert ("anew" in printed) is again
    assert github.calls == ["POST", "PATCH"]
    own = [body for is_own, body in github.comments.values() if is_own]
    assert len(own) == 1
    assert own[0].startswith(MARKER)
    assert "| s014 | train-03 | power on |" in own[0]
    assert "trust me" in github.comments[foreign][1]
    code, printed = project.step("apply", "Apply", DESTROY="")
    assert code == 0, printed
    assert "14 of 14 steps done" in printed
    assert (project.out / "run.html").exists()
    assert "train-01" in (tmp_path / "summary").read_text("utf-8")
    code, printed = project.step("apply", "Apply")
    assert code == 3, "the plan is carried out, so that the estate is not as it was"
    code, printed = project.step("verify", "Verify")
    assert code == 0, printed
    assert project.step("plan", "Plan")[0] == 0
    assert (tmp_path / "output").read_text().splitlines() == ["changes=true", "changes=false"]


@pytest.mark.lab
def test_the_job_of_gitlab_writes_its_note_for_a_refused_plan(lab, project, forge):
    server = forge("gitlab")
    variables = {"GITLAB_CI": "true", "CI_API_V4_URL": server.url, "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": "7"}
    variables |= {"GITLAB_TOKEN": "t0ken", "PLAYBOOK": "broken.yml"}
    (project.work / "broken.yml").write_text("- hosts: gpu_hosts\n  migg: '```'\n", "utf-8")
    job = GITLAB["vsphere-plan"]
    code, printed = project.run(job["script"][0], **variables)
    assert code == 65, printed
    assert not (project.out / "plan.json").exists()
    for _ in range(2):
        assert project.run(job["after_script"][0], **variables)[0] == 0
    assert server.calls == ["POST", "PUT"]
    ((_, note),) = server.comments.values()
    assert "broken.yml:2:3" in note
    assert "exit code 65" in note
    assert note.count("````") == 2, "the text cannot leave its fence"
    assert project.run(job["after_script"][0], **{**variables, "CI_MERGE_REQUEST_IID": ""})[1] == ""


def test_a_long_report_is_cut_to_what_a_comment_takes(project, github):
    project.out.mkdir()
    (project.out / "plan.md").write_text("ä" * 200_000, "utf-8")
    code, printed = project.step("plan", "Comment")
    assert code == 0, printed
    ((_, body),) = github.comments.values()
    assert len(body) == LIMIT
    assert body.endswith("in the artifacts of the job.\n")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"GITHUB_TOKEN": "wr0ng"}, "401"),
        ({"GITHUB_API_URL": "http://api.example.com"}, "not https"),
        ({"GITHUB_REPOSITORY": "ai/other"}, "404"),
    ],
)
def test_a_comment_that_is_not_written_says_why_without_the_token(project, github, variables, words):
    code, printed = project.step("plan", "Comment", **variables)
    assert code == 1
    assert words in printed
    assert "t0ken" not in printed
    assert "wr0ng" not in printed
    assert github.calls == []


def test_the_token_follows_no_redirection(project, github, forge):
    other = forge("github")
    github.elsewhere = f"{other.url}/repos/ai/farm/issues/7/comments?per_page=100&page=1"
    code, printed = project.step("plan", "Comment")
    assert code == 1
    assert "302" in printed
    assert other.calls == []


@pytest.mark.lab
def test_a_plan_is_not_carried_out_with_another_number_of_reboots(lab, project):
    project.environment["PLAYBOOK"] = "playbooks/ai-ready-cluster.yml"
    assert project.step("plan", "Plan")[0] == 0
    before = len(lab.get("/lab/ledger")["entries"])
    code, printed = project.step("apply", "Apply", REBOOT="1")
    assert code == 3, printed
    assert len(lab.get("/lab/ledger")["entries"]) == before
