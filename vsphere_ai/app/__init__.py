"""The Python API: functions of typed requests that emit events and return results. The command line only calls these.

Everything named here is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from vsphere_ai.app.api_errors import exported

if TYPE_CHECKING:
    from vsphere_ai.app.accept_farm import AcceptResult, CertificateState, accept, verify_certificate
    from vsphere_ai.app.accept_values import AcceptRequest
    from vsphere_ai.app.address_changes import (
        AddressChange,
        ReleaseRequest,
        ReserveRequest,
        release_addresses,
        reserve_addresses,
    )
    from vsphere_ai.app.address_check import VerifyLeasesRequest, VerifyLeasesResult, verify_leases
    from vsphere_ai.app.address_lease import LeaseRequest, LeaseResult, lease_addresses
    from vsphere_ai.app.address_pools import (
        LeasesRequest,
        LeasesResult,
        PoolsRequest,
        PoolsResult,
        list_leases,
        list_pools,
    )
    from vsphere_ai.app.address_reclaim import Reclaim, ReclaimRequest, reclaim_addresses
    from vsphere_ai.app.adopt_vms import AdoptRequest, adopt
    from vsphere_ai.app.apply_plan import ApplyRequest, apply
    from vsphere_ai.app.approval import Confirm
    from vsphere_ai.app.assess_farm import AssessRequest, AssessResult, assess, attested_questions
    from vsphere_ai.app.check_rules import CheckRequest, CheckResult, check
    from vsphere_ai.app.cleanup_from_vcenter import FromVCenterRequest, resume_from_vcenter
    from vsphere_ai.app.destroy_sets import DestroyRequest, destroy
    from vsphere_ai.app.events import Emit, Event, ignore
    from vsphere_ai.app.farm_readings import FarmReader, FarmState, farm_reader, read_farm
    from vsphere_ai.app.farm_snapshot import FarmRequest, FarmSnapshot
    from vsphere_ai.app.fleet_authority import CertificatesRequest, MadeCertificate, make_certificates
    from vsphere_ai.app.fleet_plan import FleetPlan, FleetPlanRequest, open_fleet_plan, plan_fleet, save_fleet_plan
    from vsphere_ai.app.fleet_run import (
        FleetOptions,
        FleetRun,
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
    from vsphere_ai.app.fleet_shard import Shard, ShardOutcome, open_or_resume
    from vsphere_ai.app.gpu_capacity import CapacityRequest, CapacityResult, capacity
    from vsphere_ai.app.guest_network import GuestNetworkRequest, GuestNetworkResult, guest_networks
    from vsphere_ai.app.health import HealthRequest, HealthResult, check_health, gpu_use, load_profile
    from vsphere_ai.app.health_learn import learn_profile
    from vsphere_ai.app.init_project import (
        ProjectRequest,
        ProjectResult,
        find_vcenter,
        project_files,
        read_project,
        require_reference,
        why_no_password,
        why_not_found,
    )
    from vsphere_ai.app.kubernetes_export import (
        ExportRequest,
        ExportResult,
        NetworkOperatorOptions,
        SpiderpoolOptions,
        export_manifests,
    )
    from vsphere_ai.app.kubernetes_manifests import ManifestsRequest, ManifestsResult, check_manifests
    from vsphere_ai.app.launch_calculate import (
        CheckpointRequest,
        MemoryRequest,
        calculate_checkpoints,
        calculate_memory,
    )
    from vsphere_ai.app.launch_export import JobExportRequest, check_job_export, export_job
    from vsphere_ai.app.launch_job import LaunchRequest, load_job
    from vsphere_ai.app.launch_planned import planned_launch
    from vsphere_ai.app.launch_run import run_logs, run_status, start_job, stop_run, wait_for_run, watch_run
    from vsphere_ai.app.launch_watch import RunRequest
    from vsphere_ai.app.lock_state import LockState, UnlockRequest, unlock
    from vsphere_ai.app.nccl_topology import (
        TopologyRequest,
        TopologyResult,
        check_topology,
        nccl_topologies,
        save_topologies,
    )
    from vsphere_ai.app.needed_privileges import PrivilegesRequest, PrivilegesResult, doctor, privileges
    from vsphere_ai.app.new_files import require_absent, write_new
    from vsphere_ai.app.nodes import NodesRequest, NodesResult, guest_settings, list_nodes, meant
    from vsphere_ai.app.nodes_export import NodesExportRequest, check_node_files, export_nodes
    from vsphere_ai.app.nodes_trust import TrustGuestsRequest, trust_guests
    from vsphere_ai.app.notification import Notifier, NotifyRequest
    from vsphere_ai.app.outputs import OutputRequest, OutputResult, output
    from vsphere_ai.app.plan_playbook import PlanRequest, PlanResult, plan, require_replaceable, save_plan
    from vsphere_ai.app.read_estate import ReadRequest, read
    from vsphere_ai.app.replace_members import ReplaceRequest, replace_vms
    from vsphere_ai.app.report_files import report_source, save_pages, save_report
    from vsphere_ai.app.results import Proposal, RunResult
    from vsphere_ai.app.resume_run import ResumeRequest, resume
    from vsphere_ai.app.rollback_run import RollbackRequest, rollback
    from vsphere_ai.app.run_follow import RunFollower, RunProgress
    from vsphere_ai.app.run_list import (
        RunList,
        close_run,
        is_alive,
        is_recorded,
        list_runs,
        open_record,
        prune_runs,
        run_stamps,
    )
    from vsphere_ai.app.session import EstateRequest, Session
    from vsphere_ai.app.session import open_session as open
    from vsphere_ai.app.show_estate import ShowRequest, ShowResult, show
    from vsphere_ai.app.trace_rdma import DevicesRequest, DevicesResult, TraceRequest, TraceResult, devices, trace
    from vsphere_ai.app.trust import TrustHostsRequest, TrustVCenterRequest, trust_hosts, trust_vcenter
    from vsphere_ai.app.verify_playbook import VerifyRequest, VerifyResult, verify
    from vsphere_ai.app.watch_playbook import DriftSeen, NotRead, ReadAgain, WatchRequest, watch

_NAMES = {
    "accept_farm": "AcceptResult CertificateState accept verify_certificate",
    "accept_values": "AcceptRequest",
    "address_changes": "AddressChange ReleaseRequest ReserveRequest release_addresses reserve_addresses",
    "address_check": "VerifyLeasesRequest VerifyLeasesResult verify_leases",
    "address_lease": "LeaseRequest LeaseResult lease_addresses",
    "address_pools": "LeasesRequest LeasesResult PoolsRequest PoolsResult list_leases list_pools",
    "address_reclaim": "Reclaim ReclaimRequest reclaim_addresses",
    "adopt_vms": "AdoptRequest adopt",
    "apply_plan": "ApplyRequest apply",
    "guest_network": "GuestNetworkRequest GuestNetworkResult guest_networks",
    "health": "HealthRequest HealthResult check_health gpu_use load_profile",
    "health_learn": "learn_profile",
    "kubernetes_export": "ExportRequest ExportResult NetworkOperatorOptions SpiderpoolOptions export_manifests",
    "kubernetes_manifests": "ManifestsRequest ManifestsResult check_manifests",
    "approval": "Confirm",
    "assess_farm": "AssessRequest AssessResult assess attested_questions",
    "check_rules": "CheckRequest CheckResult check",
    "destroy_sets": "DestroyRequest destroy",
    "events": "Emit Event ignore",
    "farm_readings": "FarmReader FarmState farm_reader read_farm",
    "farm_snapshot": "FarmRequest FarmSnapshot",
    "fleet_authority": "CertificatesRequest MadeCertificate make_certificates",
    "fleet_plan": "FleetPlan FleetPlanRequest open_fleet_plan plan_fleet save_fleet_plan",
    "fleet_run": (
        "FleetOptions FleetRun FleetStop LocalExecutor begin_fleet carry_out_fleet compare_fleet fleet_exit_code "
        "fleet_outcomes list_fleets open_fleet"
    ),
    "fleet_shard": "Shard ShardOutcome open_or_resume",
    "gpu_capacity": "CapacityRequest CapacityResult capacity",
    "launch_calculate": "CheckpointRequest MemoryRequest calculate_checkpoints calculate_memory",
    "launch_export": "JobExportRequest check_job_export export_job",
    "launch_job": "LaunchRequest load_job",
    "launch_planned": "planned_launch",
    "launch_run": "run_logs run_status start_job stop_run wait_for_run watch_run",
    "launch_watch": "RunRequest",
    "lock_state": "LockState UnlockRequest unlock",
    "nccl_topology": "TopologyRequest TopologyResult check_topology nccl_topologies save_topologies",
    "needed_privileges": "PrivilegesRequest PrivilegesResult doctor privileges",
    "nodes": "NodesRequest NodesResult guest_settings list_nodes meant",
    "nodes_trust": "TrustGuestsRequest trust_guests",
    "nodes_export": "NodesExportRequest check_node_files export_nodes",
    "notification": "Notifier NotifyRequest",
    "outputs": "OutputRequest OutputResult output",
    "plan_playbook": "PlanRequest PlanResult plan require_replaceable save_plan",
    "read_estate": "ReadRequest read",
    "replace_members": "ReplaceRequest replace_vms",
    "init_project": (
        "ProjectRequest ProjectResult find_vcenter project_files read_project require_reference why_no_password "
        "why_not_found"
    ),
    "new_files": "require_absent write_new",
    "report_files": "report_source save_pages save_report",
    "results": "Proposal RunResult",
    "cleanup_from_vcenter": "FromVCenterRequest resume_from_vcenter",
    "resume_run": "ResumeRequest resume",
    "rollback_run": "RollbackRequest rollback",
    "run_follow": "RunFollower RunProgress",
    "run_list": "RunList close_run is_alive is_recorded list_runs open_record prune_runs run_stamps",
    "session": "EstateRequest Session open",
    "show_estate": "ShowRequest ShowResult show",
    "trace_rdma": "DevicesRequest DevicesResult TraceRequest TraceResult devices trace",
    "trust": "TrustHostsRequest TrustVCenterRequest trust_hosts trust_vcenter",
    "verify_playbook": "VerifyRequest VerifyResult verify",
    "watch_playbook": "DriftSeen NotRead ReadAgain WatchRequest watch",
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
__all__ += ["AssessRequest", "AssessResult", "assess", "attested_questions"]
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
    module = import_module(f"{__name__}.{_HOMES[name]}")
    return exported(getattr(module, "open_session" if name == "open" else name))
