"""The Python API: functions of typed requests that emit events and return results. The command line only calls these.

Everything named here is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from vsphere_ai.app.api_errors import exported

if TYPE_CHECKING:
    from vsphere_ai.app.estate.check_rules import CheckRequest, CheckResult, check
    from vsphere_ai.app.estate.outputs import OutputRequest, OutputResult, output
    from vsphere_ai.app.estate.read_estate import ReadRequest, read
    from vsphere_ai.app.estate.scope import EstateRequest
    from vsphere_ai.app.estate.session import Session
    from vsphere_ai.app.estate.session import open_session as open
    from vsphere_ai.app.estate.show_estate import ShowRequest, ShowResult, show
    from vsphere_ai.app.estate.trace_rdma import (
        DevicesRequest,
        DevicesResult,
        TraceRequest,
        TraceResult,
        devices,
        trace,
    )
    from vsphere_ai.app.events import Emit, Event, ignore
    from vsphere_ai.app.events.results import Proposal, RunResult
    from vsphere_ai.app.gpus.gpu_capacity import CapacityRequest, CapacityResult, capacity
    from vsphere_ai.app.project.init_project import (
        ProjectRequest,
        ProjectResult,
        find_vcenter,
        project_files,
        read_project,
        require_reference,
        why_no_password,
        why_not_found,
    )
    from vsphere_ai.app.project.needed_privileges import PrivilegesRequest, PrivilegesResult, doctor, privileges
    from vsphere_ai.app.project.new_files import require_absent, write_new
    from vsphere_ai.app.project.trust import TrustHostsRequest, TrustVCenterRequest, trust_hosts, trust_vcenter
    from vsphere_ai.app.runs.apply_plan import ApplyRequest, apply
    from vsphere_ai.app.runs.approval import Confirm
    from vsphere_ai.app.runs.cleanup_from_vcenter import FromVCenterRequest, resume_from_vcenter
    from vsphere_ai.app.runs.lock_state import LockState, UnlockRequest, unlock
    from vsphere_ai.app.runs.plan_playbook import PlanRequest, PlanResult, plan, require_replaceable, save_plan
    from vsphere_ai.app.runs.resume_run import ResumeRequest, resume
    from vsphere_ai.app.runs.rollback_run import RollbackRequest, rollback
    from vsphere_ai.app.runs.run_follow import RunFollower, RunProgress
    from vsphere_ai.app.runs.run_list import (
        RunList,
        close_run,
        is_alive,
        is_recorded,
        list_runs,
        open_record,
        prune_runs,
        run_stamps,
    )
    from vsphere_ai.app.runs.verify_playbook import VerifyRequest, VerifyResult, verify
    from vsphere_ai.app.training.acceptance.answers import keep_answers, unanswered_questions
    from vsphere_ai.app.training.acceptance.assess_farm import AssessRequest, AssessResult, assess, attested_questions
    from vsphere_ai.app.training.acceptance.farm import AcceptResult, CertificateState, accept, verify_certificate
    from vsphere_ai.app.training.acceptance.values import AcceptRequest
    from vsphere_ai.app.training.health.checked import HealthRequest, HealthResult, check_health, gpu_use, load_profile
    from vsphere_ai.app.training.health.learn import learn_profile
    from vsphere_ai.app.training.launch.calculate import (
        CheckpointRequest,
        MemoryRequest,
        calculate_checkpoints,
        calculate_memory,
    )
    from vsphere_ai.app.training.launch.export import JobExportRequest, check_job_export, export_job
    from vsphere_ai.app.training.launch.job import LaunchRequest, load_job
    from vsphere_ai.app.training.launch.planned import planned_launch
    from vsphere_ai.app.training.launch.run import run_logs, run_status, start_job, stop_run, wait_for_run, watch_run
    from vsphere_ai.app.training.launch.watch import RunRequest
    from vsphere_ai.app.training.nodes.export import NodesExportRequest, check_node_files, export_nodes
    from vsphere_ai.app.training.nodes.kubernetes_export import (
        ExportRequest,
        ExportResult,
        NetworkOperatorOptions,
        SpiderpoolOptions,
        export_manifests,
    )
    from vsphere_ai.app.training.nodes.kubernetes_manifests import ManifestsRequest, ManifestsResult, check_manifests
    from vsphere_ai.app.training.nodes.listed import NodesRequest, NodesResult, guest_settings, list_nodes, meant
    from vsphere_ai.app.training.nodes.nccl_topology import (
        TopologyRequest,
        TopologyResult,
        check_topology,
        nccl_topologies,
        save_topologies,
    )
    from vsphere_ai.app.training.nodes.trust import TrustGuestsRequest, trust_guests
    from vsphere_ai.app.vms.address_changes import (
        AddressChange,
        ReleaseRequest,
        ReserveRequest,
        release_addresses,
        reserve_addresses,
    )
    from vsphere_ai.app.vms.address_check import VerifyLeasesRequest, VerifyLeasesResult, verify_leases
    from vsphere_ai.app.vms.address_lease import LeaseRequest, LeaseResult, lease_addresses
    from vsphere_ai.app.vms.address_pools import (
        LeasesRequest,
        LeasesResult,
        PoolsRequest,
        PoolsResult,
        list_leases,
        list_pools,
    )
    from vsphere_ai.app.vms.address_reclaim import Reclaim, ReclaimRequest, reclaim_addresses
    from vsphere_ai.app.vms.adopt_vms import AdoptRequest, adopt
    from vsphere_ai.app.vms.destroy_sets import DestroyRequest, destroy
    from vsphere_ai.app.vms.guest_network import GuestNetworkRequest, GuestNetworkResult, guest_networks
    from vsphere_ai.app.vms.replace_members import ReplaceRequest, replace_vms
    from vsphere_ai.app.watching.farm_readings import FarmReader, FarmState, farm_reader, read_farm
    from vsphere_ai.app.watching.farm_snapshot import FarmRequest, FarmSnapshot
    from vsphere_ai.app.watching.notification import Notifier
    from vsphere_ai.app.watching.report_files import report_source, save_pages, save_report
    from vsphere_ai.app.watching.watch_playbook import DriftSeen, NotRead, ReadAgain, WatchRequest, watch
    from vsphere_ai.documents.fleets import FleetRun, Shard, ShardOutcome
    from vsphere_ai.fleet.authority import CertificatesRequest, MadeCertificate, make_certificates
    from vsphere_ai.fleet.plan import FleetPlan, FleetPlanRequest, open_fleet_plan, plan_fleet, save_fleet_plan
    from vsphere_ai.fleet.run import (
        FleetOptions,
        FleetStop,
        LocalExecutor,
        begin_fleet,
        carry_out_fleet,
        compare_fleet,
        fleet_exit_code,
        fleet_outcomes,
        list_fleets,
        open_fleet,
    )
    from vsphere_ai.fleet.shard import open_or_resume
    from vsphere_ai.model.records.notify_request import NotifyRequest

_NAMES = {
    "app.training.acceptance.farm": "AcceptResult CertificateState accept verify_certificate",
    "app.training.acceptance.values": "AcceptRequest",
    "app.vms.address_changes": "AddressChange ReleaseRequest ReserveRequest release_addresses reserve_addresses",
    "app.vms.address_check": "VerifyLeasesRequest VerifyLeasesResult verify_leases",
    "app.vms.address_lease": "LeaseRequest LeaseResult lease_addresses",
    "app.vms.address_pools": "LeasesRequest LeasesResult PoolsRequest PoolsResult list_leases list_pools",
    "app.vms.address_reclaim": "Reclaim ReclaimRequest reclaim_addresses",
    "app.vms.adopt_vms": "AdoptRequest adopt",
    "app.runs.apply_plan": "ApplyRequest apply",
    "app.vms.guest_network": "GuestNetworkRequest GuestNetworkResult guest_networks",
    "app.training.health.checked": "HealthRequest HealthResult check_health gpu_use load_profile",
    "app.training.health.learn": "learn_profile",
    "app.training.nodes.kubernetes_export": (
        "ExportRequest ExportResult NetworkOperatorOptions SpiderpoolOptions export_manifests"
    ),
    "app.training.nodes.kubernetes_manifests": "ManifestsRequest ManifestsResult check_manifests",
    "app.runs.approval": "Confirm",
    "app.training.acceptance.answers": "keep_answers unanswered_questions",
    "app.training.acceptance.assess_farm": "AssessRequest AssessResult assess attested_questions",
    "app.estate.check_rules": "CheckRequest CheckResult check",
    "app.vms.destroy_sets": "DestroyRequest destroy",
    "app.events": "Emit Event ignore",
    "app.watching.farm_readings": "FarmReader FarmState farm_reader read_farm",
    "app.watching.farm_snapshot": "FarmRequest FarmSnapshot",
    "fleet.authority": "CertificatesRequest MadeCertificate make_certificates",
    "fleet.plan": "FleetPlan FleetPlanRequest open_fleet_plan plan_fleet save_fleet_plan",
    "fleet.run": (
        "FleetOptions FleetStop LocalExecutor begin_fleet carry_out_fleet compare_fleet fleet_exit_code "
        "fleet_outcomes list_fleets open_fleet"
    ),
    "documents.fleets": "FleetRun Shard ShardOutcome",
    "fleet.shard": "open_or_resume",
    "app.gpus.gpu_capacity": "CapacityRequest CapacityResult capacity",
    "app.training.launch.calculate": "CheckpointRequest MemoryRequest calculate_checkpoints calculate_memory",
    "app.training.launch.export": "JobExportRequest check_job_export export_job",
    "app.training.launch.job": "LaunchRequest load_job",
    "app.training.launch.planned": "planned_launch",
    "app.training.launch.run": "run_logs run_status start_job stop_run wait_for_run watch_run",
    "app.training.launch.watch": "RunRequest",
    "app.runs.lock_state": "LockState UnlockRequest unlock",
    "app.training.nodes.nccl_topology": "TopologyRequest TopologyResult check_topology nccl_topologies save_topologies",
    "app.project.needed_privileges": "PrivilegesRequest PrivilegesResult doctor privileges",
    "app.training.nodes.listed": "NodesRequest NodesResult guest_settings list_nodes meant",
    "app.training.nodes.trust": "TrustGuestsRequest trust_guests",
    "app.training.nodes.export": "NodesExportRequest check_node_files export_nodes",
    "app.watching.notification": "Notifier",
    "model.records.notify_request": "NotifyRequest",
    "app.estate.outputs": "OutputRequest OutputResult output",
    "app.runs.plan_playbook": "PlanRequest PlanResult plan require_replaceable save_plan",
    "app.estate.read_estate": "ReadRequest read",
    "app.vms.replace_members": "ReplaceRequest replace_vms",
    "app.project.init_project": (
        "ProjectRequest ProjectResult find_vcenter project_files read_project require_reference why_no_password "
        "why_not_found"
    ),
    "app.project.new_files": "require_absent write_new",
    "app.watching.report_files": "report_source save_pages save_report",
    "app.events.results": "Proposal RunResult",
    "app.runs.cleanup_from_vcenter": "FromVCenterRequest resume_from_vcenter",
    "app.runs.resume_run": "ResumeRequest resume",
    "app.runs.rollback_run": "RollbackRequest rollback",
    "app.runs.run_follow": "RunFollower RunProgress",
    "app.runs.run_list": "RunList close_run is_alive is_recorded list_runs open_record prune_runs run_stamps",
    "app.estate.scope": "EstateRequest",
    "app.estate.session": "Session open",
    "app.estate.show_estate": "ShowRequest ShowResult show",
    "app.estate.trace_rdma": "DevicesRequest DevicesResult TraceRequest TraceResult devices trace",
    "app.project.trust": "TrustHostsRequest TrustVCenterRequest trust_hosts trust_vcenter",
    "app.runs.verify_playbook": "VerifyRequest VerifyResult verify",
    "app.watching.watch_playbook": "DriftSeen NotRead ReadAgain WatchRequest watch",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

__all__ = ["Confirm", "Emit", "EstateRequest", "Event", "Proposal", "RunResult", "Session", "ignore", "open"]
__all__ += ["ApplyRequest", "ResumeRequest", "RollbackRequest", "apply", "resume", "rollback"]
__all__ += ["AdoptRequest", "DestroyRequest", "ReplaceRequest", "adopt", "destroy", "replace_vms"]
__all__ += ["PlanRequest", "PlanResult", "plan", "require_replaceable", "save_plan"]
__all__ += ["OutputRequest", "OutputResult", "output"]
__all__ += ["CheckRequest", "CheckResult", "VerifyRequest", "VerifyResult", "check", "verify"]
__all__ += ["AcceptRequest", "AcceptResult", "CertificateState", "accept", "verify_certificate"]
__all__ += ["DriftSeen", "NotRead", "Notifier", "NotifyRequest", "ReadAgain", "WatchRequest", "watch"]
__all__ += ["NodesExportRequest", "check_node_files", "export_nodes"]
__all__ += ["TopologyRequest", "TopologyResult", "check_topology", "nccl_topologies", "save_topologies"]
__all__ += ["AssessRequest", "AssessResult", "assess", "attested_questions", "keep_answers", "unanswered_questions"]
__all__ += ["CapacityRequest", "CapacityResult", "ReadRequest", "ShowRequest", "ShowResult", "capacity", "read", "show"]
__all__ += ["DevicesRequest", "DevicesResult", "TraceRequest", "TraceResult", "devices", "trace"]
__all__ += ["LeasesRequest", "LeasesResult", "PoolsRequest", "PoolsResult", "list_leases", "list_pools"]
__all__ += ["LeaseRequest", "LeaseResult", "lease_addresses"]
__all__ += ["AddressChange", "ReleaseRequest", "ReserveRequest", "release_addresses", "reserve_addresses"]
__all__ += ["Reclaim", "ReclaimRequest", "VerifyLeasesRequest", "VerifyLeasesResult"]
__all__ += ["reclaim_addresses", "verify_leases"]
__all__ += ["ManifestsRequest", "ManifestsResult", "check_manifests"]
__all__ += ["GuestNetworkRequest", "GuestNetworkResult", "guest_networks"]
__all__ += ["ExportRequest", "ExportResult", "NetworkOperatorOptions", "SpiderpoolOptions", "export_manifests"]
__all__ += ["CheckpointRequest", "MemoryRequest", "calculate_checkpoints", "calculate_memory"]
__all__ += ["JobExportRequest", "check_job_export", "export_job"]
__all__ += ["LaunchRequest", "load_job", "planned_launch"]
__all__ += ["RunRequest", "run_logs", "run_status", "start_job", "stop_run", "wait_for_run", "watch_run"]
__all__ += ["PrivilegesRequest", "PrivilegesResult", "doctor", "privileges"]
__all__ += [
    "NodesRequest",
    "NodesResult",
    "TrustGuestsRequest",
    "guest_settings",
    "list_nodes",
    "meant",
    "trust_guests",
]
__all__ += ["LockState", "TrustHostsRequest", "TrustVCenterRequest", "UnlockRequest"]
__all__ += ["trust_hosts", "trust_vcenter", "unlock"]
__all__ += ["FromVCenterRequest", "resume_from_vcenter"]
__all__ += ["ProjectRequest", "ProjectResult", "find_vcenter", "project_files", "read_project", "require_reference"]
__all__ += ["why_no_password", "why_not_found"]
__all__ += ["report_source", "require_absent", "save_pages", "save_report", "write_new"]
__all__ += ["FarmReader", "FarmRequest", "FarmSnapshot", "FarmState", "farm_reader", "read_farm"]
__all__ += ["RunFollower", "RunProgress", "is_alive", "run_stamps"]
__all__ += ["RunList", "close_run", "is_recorded", "list_runs", "open_record", "prune_runs"]
__all__ += ["HealthRequest", "HealthResult", "check_health", "gpu_use", "load_profile"]
__all__ += ["learn_profile"]
__all__ += ["CertificatesRequest", "MadeCertificate", "make_certificates"]
__all__ += ["FleetPlan", "FleetPlanRequest", "open_fleet_plan", "plan_fleet", "save_fleet_plan"]
__all__ += ["FleetOptions", "FleetRun", "FleetStop", "LocalExecutor", "begin_fleet", "carry_out_fleet"]
__all__ += ["compare_fleet", "fleet_exit_code", "fleet_outcomes", "list_fleets", "open_fleet"]
__all__ += ["Shard", "ShardOutcome", "open_or_resume"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"vsphere_ai.{_HOMES[name]}")
    return exported(getattr(module, "open_session" if name == "open" else name))
