"""Rules of sets in clusters: one reconfigure with what differs now, and read back."""

from __future__ import annotations

from typing import Any

from vsphere_ai.errors import Conflict, StepFailed
from vsphere_ai.execution.actions.context import Context, Say
from vsphere_ai.model.cluster_rules import difference, foreign_rules
from vsphere_ai.model.state import Target
from vsphere_ai.model.steps import ClusterRules

CONFIG = "configurationEx"


def apply(context: Context, step: ClusterRules, say: Say) -> None:
    """Make rules, groups and overrides of a set as desired; `Conflict` where rules of others forbid it."""
    config = _config(context, step)
    for name, why in foreign_rules(config, step.wanted, context.vcenter.called):
        raise Conflict(f"the rule '{name}' was added since planning, and {why}", "plan again", rule="object.changed")
    spec = _left(context, step, config)
    if not spec:
        return
    cluster = Target("datacenter", step.target.name, step.cluster)
    context.task(cluster, "ReconfigureComputeResource_Task", {"spec": spec, "modify": True}, say)
    if _left(context, step, _config(context, step)):
        words = f"the rules of the set {step.wanted.set} are not as they were sent"
        raise StepFailed(words, "look at Configure > VM/Host Rules of the cluster", rule="cluster.rules")


def is_applied(context: Context, step: ClusterRules) -> bool:
    """Read whether a cluster has what a set wants of it."""
    return not _left(context, step, _config(context, step))


def _config(context: Context, step: ClusterRules) -> dict[str, Any]:
    cluster = Target("datacenter", step.target.name, step.cluster)
    return dict(context.read(cluster, CONFIG).get(CONFIG) or {})


def _left(context: Context, step: ClusterRules, config: dict[str, Any]) -> dict[str, Any]:
    return difference(config, step.wanted, context.vcenter.called)
