"""The vsphere-ai command: found, run and read, for the modules of this collection."""

from __future__ import annotations

import json
import os
import subprocess

MEANINGS = {
    1: "refused or failed",
    2: "drifted",
    3: "conflict: the estate is not as planned, or a number does not match",
    4: "denied: credentials, privileges, certificate or host key",
    5: "unreachable",
    6: "a host did not come back as it should",
    7: "locked by another run",
    8: "the journal cannot be written or read",
    9: "outcome unknown",
    64: "the call is not possible as given",
    65: "invalid input",
}
SHARED = {
    "executable": {"type": "path"},
    "chdir": {"type": "path"},
    "inventory": {"type": "path"},
    "vcenter": {"type": "str"},
    "limit": {"type": "str"},
    "start_ssh": {"type": "bool", "default": False},
    "parallel": {"type": "int"},
}
"""Options that both modules have."""


class Command:
    """Calls of vsphere-ai with the shared options of a module."""

    def __init__(self, module):
        self._module = module
        self._program = self._find()

    def _find(self):
        """Find the program: the option, the variable VSPHERE_AI, PATH; in this order."""
        given = self._module.params["executable"] or os.environ.get("VSPHERE_AI")
        if given:
            if not os.access(given, os.X_OK):
                self._module.fail_json(msg=f"{given} is no program", remedy="correct executable, or VSPHERE_AI")
            return given
        found = self._module.get_bin_path("vsphere-ai")
        if not found:
            self._module.fail_json(
                msg="vsphere-ai is not installed on the controller: it is not on PATH",
                remedy="install it, see its page install.md; or name it by executable or the variable VSPHERE_AI",
            )
        return found

    def line(self, *words, limited=True):
        """Return an argv with the shared options."""
        given = self._module.params
        argv = [self._program, *words]
        options = {"-i": given["inventory"], "--vcenter": given["vcenter"], "--parallel": given["parallel"]}
        if limited:
            options["--limit"] = given["limit"]
        for option, value in options.items():
            argv += [option, str(value)] if value else []
        return [*argv, "--start-ssh"] if given["start_ssh"] else argv

    def run(self, argv):
        """Run an argv without a terminal; return exit code, standard output and standard error."""
        environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd=self._module.params["chdir"] or None,
                env=environment,
                check=False,
            )
        except OSError as error:
            self._module.fail_json(msg=f"{argv[0]} cannot be run: {error}")
        return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")

    def document(self, argv, good):
        """Run a command that prints one JSON document, and return its exit code with it; fail on any other code."""
        code, output, errors = self.run(argv)
        try:
            document = json.loads(output)
        except ValueError:
            document = {}
        if code not in good or not document:
            self._module.fail_json(**failure(code, errors, document), cmd=argv)
        return code, document


def failure(code, errors, document):
    """Return what a module says of a command that failed: the reason first, with places in files and remedies."""
    problems = [
        {"target": p["target"]["name"], "rule": p["rule"], "message": p["message"], "help": p.get("help", "")}
        for p in document.get("problems", ())
    ]
    lines = [f"{p['target']}: {p['message']} ({p['rule']})" for p in problems] or [errors.strip()]
    meaning = MEANINGS.get(code, "ended by a signal" if code < 0 or code > 128 else "failed")
    return {"msg": "\n".join([f"vsphere-ai: {meaning} (exit {code})", *lines]), "rc": code, "problems": problems}


def plan_facts(document):
    """Return what a plan comes to, for conditions in a playbook: counts, and the names of who is disrupted."""
    impact = document["impact"]
    return {
        "steps": len(document["steps"]),
        "items": len(document["items"]),
        "digest": document["digest"],
        "reboots": [target["name"] for target in impact.get("reboots", ())],
        "power_cycles": [target["name"] for target in impact.get("power_cycles", ())],
        "created": [target["name"] for target in impact.get("created", ())],
        "destroyed": [target["name"] for target in impact.get("destroyed", ())],
        "vcenter": (document.get("world") or {}).get("name", ""),
    }


def differences(document):
    """Return the changes of a plan for Ansible's diff mode: an entry per target, a line per setting."""
    found = {}
    for item in document["items"]:
        target = item["target"]
        before, after = found.setdefault((target["kind"], target["name"]), ([], []))
        for change in item["changes"]:
            for lines, value in ((before, change.get("before")), (after, change.get("after"))):
                if value is not None:
                    lines.append(f"{item['kind']}.{change['field']}: {json.dumps(value, ensure_ascii=False)}\n")
    return [
        {
            "before_header": f"{kind} {name} (observed)",
            "after_header": f"{kind} {name} (wanted)",
            "before": "".join(before),
            "after": "".join(after),
        }
        for (kind, name), (before, after) in found.items()
        if before or after
    ]
