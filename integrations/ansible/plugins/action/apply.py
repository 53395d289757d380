"""Runs a module of this collection on the controller, whatever host its task is for."""

from __future__ import annotations

import sys

from ansible.plugins.action import ActionBase
from ansible.plugins.loader import connection_loader

PATHS = ("chdir", "inventory", "playbook", "plan")


class ActionModule(ActionBase):
    """Executes the module over the local connection, by the interpreter that runs Ansible."""

    _supports_async = True
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp=None, task_vars=None):
        """Run the module; relative paths are those of the folder of the playbook."""
        result = super().run(tmp, task_vars)
        del tmp
        self._connection = connection_loader.get("local", self._play_context, "/dev/null")
        variables = {**(task_vars or {}), "ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        given = dict(self._task.args)
        given.setdefault("chdir", self._loader.get_basedir())
        for name in PATHS:
            if isinstance(given.get(name), str):
                given[name] = self._loader.path_dwim(given[name])
        done = self._execute_module(module_args=given, task_vars=variables, wrap_async=self._task.async_val)
        result.update(done)
        return result
