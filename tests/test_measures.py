"""Measures of the whole product against ceilings: a number may fall, and then its ceiling falls with it."""

from __future__ import annotations

import ast
from functools import cache
from statistics import median

import pytest
from test_architecture import LAYERS, modules, tree

from tools.docgen import architecture

CEILINGS = {
    "Any in signatures of functions": 78,
    "bare Any at the doors of modules": 20,
    "getattr with a default": 13,
    "median lines of a file": 98.5,
    "lines of the product": 45_915,
    "arrows between rooms": 110,
    "floors": 9,
}
LATER = (
    "app.fleet_",
    "cli.fleet",
    "report.fleet_text",
    "execution.host_budget",
    "model.kept",
    "execution.actions.in_flight",
    "execution.actions.task_progress",
    "execution.run_budget",
    "app.live_cursor",
    "app.unfinished_tasks",
    "connect.cursor",
    "connect.privilege_answers",
    "connect.ssh_command",
    "connect.ssh_pool",
    "connect.live_reads",
    "reading.probe_memory",
    "reading.host_calls",
    "compat.vm_groups",
    "model.places",
    "connect.ahead",
    "connect.memory",
    "connect.part_forms",
    "connect.part_patterns",
    "connect.part_shapes",
    "connect.stub",
    "connect.property_values",
    "connect.value_fits",
    "report.run_log",
    "report.trace_paths",
    "report.live_text",
    "cli.live",
    "planning.placed",
    "model.printed",
    "language.variable",
    "language.varying",
    "language.shown_variables",
    "language.substitution",
    "language.include",
    "language.merge_keys",
    "language.inventory_variables",
    "model.variables",
    "report.variables_text",
    "kubernetes",
    "app.kubernetes_",
    "report.pages",
    "report.report_in",
    "app.report_files",
    "cli.report",
    "report.explain_text",
    "report.explained_text",
    "app.explanations",
    "model.explained",
    "report.export_text",
    "report.manifest_text",
    "cli.explain",
    "cli.render",
    "model.networks",
    "addresses",
    "guests",
    "app.address_",
    "connect.address_",
    "report.pools_text",
    "cli.ipam",
    "language.inventory_pools",
    "language.inventory_leaves",
    "app.outputs",
    "cli.output",
    "language.output",
    "language.reference",
    "report.outputs_text",
    "app.destroy_sets",
    "app.replace_members",
    "cli.destroy",
    "cli.replace",
    "execution.disk_children",
    "execution.running_clones",
    "sets",
    "resources.vm_set",
    "resources.makes_vms",
    "model.cluster_rules",
    "model.guest_ids",
    "model.vm_sets",
    "planning.set_order",
    "execution.actions.cluster_rules",
    "execution.actions.leases",
    "execution.actions.vm_life",
    "connect.planned_refs",
    "connect.page",
    "connect.part_reader",
    "connect.wire_types",
    "app.guest_network",
    "app.references",
    "app.session_outputs",
    "report.addresses_text",
    "report.guest_text",
    "training",
    "benchmarks",
    "health",
    "model.nodes",
    "connect.guest_",
    "app.launch",
    "app.nodes",
    "app.benchmark",
    "app.health",
    "app.preflight",
    "language.inventory_guests",
    "cli.lab_defects",
    "app.assess",
    "app.health_record",
    "app.accept",
    "report.launch_text",
    "report.calculate_text",
    "cli.calculate",
    "report.benchmark_text",
    "report.health_text",
    "cli.launch",
    "cli.bench",
    "cli.health",
    "cli.assess",
    "cli.accept",
    "security.password_hash",
    "cli.adopt",
    "app.guest_passwords",
    "app.adopt_vms",
    "report.assessment_text",
    "language.attestation",
    "model.assessment",
    "compat.certified_facts",
    "compat.assessment",
    "compat.pillars",
    "report.certificate_text",
    "app.crossover",
    "report.crossover_text",
    "planning.relocation",
    "execution.put_back",
    "execution.actions.relocation",
    "app.nccl_topology",
    "model.topology",
    "report.topology_text",
    "app.schemas",
    "app.surroundings",
    "cli.completion",
    "cli.schema",
    "model.name_ranges",
    "model.world",
    "planning.expected_time",
    "report.benchmark_training_text",
    "report.folding",
    "report.plan_impact",
    "report.plan_order",
    "report.plan_targets",
    "report.world_text",
    "app.init_project",
    "app.new_files",
    "cli.init",
    "planning.play_groups",
    "report.play_patterns",
    "report.play_titles",
    "report.project_text",
    "report.state_text",
    "runs.past_durations",
    "security.known_names",
    "connect.leave",
    "language.opened_files",
    "connect.task_monitor",
    "connect.task_watcher",
    "runs.group_commit",
    "runs.replica",
    "runs.writer",
    "runs.journal_files",
    "app.fleet_",
    "cli.fleet",
    "report.fleet_",
    "app.chosen_kinds",
    "app.example_files",
    "app.farm_",
    "app.notification",
    "app.project_groups",
    "app.run_follow",
    "app.variable_names",
    "app.watch_playbook",
    "cli.examples",
    "cli.metrics",
    "cli.notifying",
    "cli.serve",
    "cli.web_extra",
    "connect.tag_service",
    "gpu.models",
    "language.desired",
    "language.play_reader",
    "language.selected",
    "language.selectors",
    "model.project",
    "model.suggestion",
    "planning.drift",
    "reading.selecting",
    "report.notification",
    "report.yaml_text",
    "web",
    "connect.shared_reads",
    "reading.own_paths",
)
"""Functions that came after the ceiling of lines."""


@cache
def product() -> tuple[str, ...]:
    """The modules that are shipped for use, without the simulated farm."""
    return tuple(name for name in modules() if name != "lab" and not name.startswith("lab."))


def lines(name: str) -> int:
    return len(modules()[name].read_text("utf-8").splitlines())


def annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.expr]:
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    return [a.annotation for a in every if a and a.annotation] + [function.returns] * bool(function.returns)


def anys(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How often a signature says Any, alone or inside of another type."""
    said = (node for each in annotations(function) for node in ast.walk(each))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in said)


def bare(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many parameters, or the result, are Any and nothing else."""
    return sum(isinstance(each, ast.Name) and each.id == "Any" for each in annotations(function))


def functions(name: str, *, public: bool = False) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module; those at its door are the public ones of the module and of its public classes."""
    own = (ast.FunctionDef, ast.AsyncFunctionDef)
    if not public:
        return [node for node in ast.walk(tree(modules()[name])) if isinstance(node, own)]
    body = tree(modules()[name]).body
    classes = [n for n in body if isinstance(n, ast.ClassDef) and not n.name.startswith("_")]
    return [n for n in (*body, *(m for c in classes for m in c.body)) if isinstance(n, own) and n.name[0] != "_"]


def defaults(name: str) -> int:
    """How often a module asks for an attribute that may not be there."""
    calls = (node for node in ast.walk(tree(modules()[name])) if isinstance(node, ast.Call))
    return sum(isinstance(c.func, ast.Name) and c.func.id == "getattr" and len(c.args) == 3 for c in calls)


@cache
def measures() -> dict[str, float]:
    return {
        "Any in signatures of functions": sum(anys(f) for name in product() for f in functions(name)),
        "bare Any at the doors of modules": sum(bare(f) for n in product() for f in functions(n, public=True)),
        "getattr with a default": sum(map(defaults, product())),
        "median lines of a file": median(map(lines, product())),
        "lines of the product": sum(lines(name) for name in product() if not name.startswith(LATER)),
        "arrows between rooms": sum(len(others) for others in architecture.arrows().values()),
        "floors": sum(not {"errors", "vsphere_ai", "__main__"} & set(floor) for floor in LAYERS),
    }


@pytest.mark.parametrize("name", CEILINGS)
def test_no_measure_rises(name):
    assert measures()[name] <= CEILINGS[name]
