#!/usr/bin/python
"""Check whether a vSphere environment still is as a playbook of vsphere-ai says."""

# Copyright: the authors of vsphere-ai
# Apache License 2.0 (see LICENSE of vsphere-ai, or https://www.apache.org/licenses/LICENSE-2.0)

from __future__ import annotations

DOCUMENTATION = r"""
module: verify
short_description: Check whether a vSphere environment still is as a playbook of vsphere-ai says
version_added: 0.1.0
description:
  - Runs C(vsphere-ai verify) on the controller. It changes nothing, so C(changed) is always false.
  - Drift is no failure, but C(as_wanted) is false then; a condition decides.
options:
  playbook:
    description: The playbook of vsphere-ai; a relative path begins at the folder of the Ansible playbook.
    type: path
    required: true
extends_documentation_fragment: vsphere_ai.farm.shared
attributes:
  check_mode:
    description: It changes nothing in either mode.
    support: full
  diff_mode:
    description: The drift, from what is observed to what the playbook says.
    support: full
seealso:
  - module: vsphere_ai.farm.apply
author: [The authors of vsphere-ai]
"""

EXAMPLES = r"""
- name: The environment is as its playbook says
  vsphere_ai.farm.verify:
    playbook: playbooks/ai-ready-cluster.yml
  register: farm
  failed_when: not farm.as_wanted
"""

RETURN = r"""
as_wanted:
  description: Whether nothing drifted.
  returned: success
  type: bool
drifted:
  description: The settings that drifted. Each has C(target), C(kind), C(field), C(observed) and C(wanted).
  returned: success
  type: list
  elements: dict
rc:
  description: The exit code of vsphere-ai; 1 when it is not known whether the environment is in the desired state.
  returned: when it failed
  type: int
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vsphere_ai.farm.plugins.module_utils.command import SHARED, Command, differences


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"playbook": {"type": "path", "required": True}, **SHARED}, supports_check_mode=True
    )
    command = Command(module)
    argv = command.line("verify", module.params["playbook"], "-o", "json")
    _, document = command.document(argv, good=(0, 2))
    drifted = [
        {
            "target": item["target"]["name"],
            "kind": item["kind"],
            "field": change["field"],
            "observed": change.get("before"),
            "wanted": change.get("after"),
        }
        for item in document["items"]
        for change in item["changes"]
    ]
    result = {"changed": False, "as_wanted": document["as_wanted"], "drifted": drifted}
    if module._diff:
        result["diff"] = differences(document)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
