#!/usr/bin/python
"""Carry out a playbook of vsphere-ai, or a plan that was saved."""

# Copyright: the authors of vsphere-ai
# Apache License 2.0 (see LICENSE of vsphere-ai, or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: apply
short_description: Carry out a playbook of vsphere-ai, or a plan that was saved
version_added: 0.1.0
description:
  - Plans a playbook of vsphere-ai with C(vsphere-ai plan), and carries out exactly this plan with C(vsphere-ai apply).
  - In check mode it plans only. C(changed) is the same in both modes, that the plan has steps.
  - In diff mode the changes of the plan are shown, an entry per host or VM.
  - It always runs on the controller, whatever host the task is for. C(hosts=localhost) with C(run_once) is the usual
    way, because one task changes the whole environment that the playbook is about.
options:
  playbook:
    description: The playbook of vsphere-ai; a relative path begins at the folder of the Ansible playbook.
    type: path
  plan:
    description:
      - A plan that C(vsphere-ai plan --to) saved. It is refused when it was edited, or the environment has changed.
      - In check mode the content of the file is shown. The environment is compared with it only when it is carried out.
    type: path
  reboot:
    description: The number of hosts that are expected to reboot. A plan with another number is not carried out.
    type: int
  destroy:
    description:
      - The number of VMs that are expected to be destroyed with their disks.
      - A plan that destroys VMs is not carried out without it, nor with another number.
    type: int
  lock:
    description: Which other runs are kept away; without it as the inventory of vsphere-ai says.
    type: str
    choices: [none, local, vcenter]
extends_documentation_fragment: vsphere_ai.farm.shared
attributes:
  check_mode:
    description: Plans, and changes nothing. A number of reboots or destroyed VMs is compared, too.
    support: full
  diff_mode:
    description: The changes of the plan.
    support: full
  async:
    description: A run may take an hour; use C(hosts=localhost), so that C(async_status) looks on the controller.
    support: full
seealso:
  - module: vsphere_ai.farm.verify
author: [The authors of vsphere-ai]
"""

EXAMPLES = r"""
- name: GPU hosts share their A100s, and two of them reboot for it
  vsphere_ai.farm.apply:
    playbook: playbooks/ai-ready-cluster.yml
    inventory: inventories/prod.yml
    reboot: 2

- name: A plan that was saved and read before
  vsphere_ai.farm.apply:
    plan: plan.json

- name: A run that takes longer than a connection lasts
  vsphere_ai.farm.apply:
    playbook: playbooks/ai-ready-cluster.yml
  async: 7200
  poll: 15
"""

RETURN = r"""
steps:
  description: How many steps the plan has.
  returned: always, unless the playbook cannot be planned
  type: int
run:
  description: The record of the run, for C(vsphere-ai show), C(resume) and C(rollback); empty where nothing was done.
  returned: when not in check mode
  type: str
counts:
  description: How many steps are done, failed, of unknown outcome, and skipped.
  returned: when not in check mode
  type: dict
reboots:
  description: The hosts that reboot.
  returned: always, unless the playbook cannot be planned
  type: list
  elements: str
power_cycles:
  description: The VMs that are power-cycled.
  returned: always, unless the playbook cannot be planned
  type: list
  elements: str
created:
  description: The VMs that are made.
  returned: always, unless the playbook cannot be planned
  type: list
  elements: str
destroyed:
  description: The VMs that are destroyed.
  returned: always, unless the playbook cannot be planned
  type: list
  elements: str
digest:
  description: SHA-256 of the plan.
  returned: always, unless the playbook cannot be planned
  type: str
problems:
  description: Why the plan is refused. Each has C(target), C(rule), C(message) and C(help).
  returned: when the playbook cannot be carried out
  type: list
  elements: dict
resume:
  description: The command that brings an unfinished run to its end.
  returned: when a run did not end well
  type: str
rc:
  description: The exit code of vsphere-ai, such as 3 for a stale plan and 9 for an unknown outcome.
  returned: when it failed
  type: int
"""

import json
import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vsphere_ai.farm.plugins.module_utils.command import (
    MEANINGS,
    SHARED,
    Command,
    differences,
    failure,
    plan_facts,
)

COUNTED = ("done", "failed", "unknown", "skipped")
OWN = {
    "playbook": {"type": "path"},
    "plan": {"type": "path"},
    "reboot": {"type": "int"},
    "destroy": {"type": "int"},
    "lock": {"type": "str", "choices": ["none", "local", "vcenter"]},
}


def planned(module, command):
    """Return the plan as a document, and the file from which it is carried out."""
    saved = module.params["plan"]
    if saved:
        try:
            with open(os.path.join(module.params["chdir"] or "", saved), encoding="utf-8") as file:
                return json.load(file), saved
        except (OSError, ValueError) as error:
            module.fail_json(msg=f"{saved} is no saved plan: {error}", remedy="vsphere-ai plan PLAYBOOK --to plan.json")
    saved = os.path.join(module.tmpdir, "plan.json")
    argv = command.line("plan", module.params["playbook"], "-o", "json", "--to", saved)
    return command.document(argv, good=(0,))[1], saved


def require_numbers(module, result):
    """Fail where a plan reboots or destroys another number than was expected; in check mode as in a real run."""
    for option, targets in (("reboot", result["reboots"]), ("destroy", result["destroyed"])):
        expected = module.params[option]
        if expected is not None and expected != len(targets):
            words = f"the plan would {option} {len(targets)}, and {option}={expected} was given; nothing was changed"
            module.fail_json(msg=f"vsphere-ai: {words}: {', '.join(targets)}", rc=3, **{**result, "changed": False})
        if option == "destroy" and targets and expected is None:
            words = f"the plan destroys {len(targets)} VMs with their disks: {', '.join(targets)}"
            module.fail_json(msg=f"{words}; give destroy={len(targets)}", rc=64, **{**result, "changed": False})


def carried_out(module, command, saved, result):
    """Carry out a plan; return the result of the module, or fail with how to go on."""
    argv = command.line("apply", saved, "-o", "json", limited=False)
    for option in ("reboot", "destroy", "lock"):
        if module.params[option] is not None:
            argv += [f"--{option}", str(module.params[option])]
    code, output, errors = command.run(argv)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{") and line.endswith("}")]
    run = next((line["run"] for line in lines if line["type"] == "run"), "")
    summary = next((line for line in reversed(lines) if line["type"] == "summary"), {})
    result["run"], result["counts"] = run, {name: summary.get(name, 0) for name in COUNTED}
    result["changed"] = bool(result["counts"]["done"] or result["counts"]["unknown"])
    result["verified"], result["open"] = summary.get("verified", []), summary.get("open", [])
    if code == 0 and summary:
        return result
    failed = [
        f"{each['target']}: {each['error'] or each['reason']} ({each['state']})"
        for each in summary.get("outcomes", ())
        if each["state"] in ("failed", "unknown")
    ]
    left = [f"left open: {words}" for words in result["open"]]
    said = failure(code, errors, {})
    if failed or left:
        said["msg"] = "\n".join([f"vsphere-ai: {MEANINGS.get(code, 'failed')} (exit {code})", *failed, *left])
    if run:
        result["changed"] = result["changed"] or not summary
        result["resume"] = f"vsphere-ai resume {run}"
        said["msg"] += f"\nContinue from what is there: {result['resume']}"
    return module.fail_json(**{**result, **said}, cmd=argv)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={**OWN, **SHARED},
        supports_check_mode=True,
        required_one_of=[("playbook", "plan")],
        mutually_exclusive=[("playbook", "plan"), ("plan", "limit")],
    )
    command = Command(module)
    document, saved = planned(module, command)
    result = {"changed": bool(document["steps"]), **plan_facts(document)}
    if module._diff:
        result["diff"] = differences(document)
    require_numbers(module, result)
    if not module.check_mode:
        result = carried_out(module, command, saved, result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
