"""ServiceInstance and SessionManager: the front door, login and logout."""

from __future__ import annotations

import hmac
from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import Call, reads
from vsphere_ai.lab.managed.option_manager import HOT_VGPU, VCENTER_SETTINGS
from vsphere_ai.lab.managed.property_collector import SHARED, filters_of
from vsphere_ai.lab.managed.vcenter.vcenter_managers import add_managers
from vsphere_ai.lab.sessions import LabSession, now
from vsphere_ai.lab.store import ManagedObject, Store


def add_service(farm: Farm, root: ManagedObject) -> None:
    """Add the ServiceInstance and the managers its content names."""
    version = farm.scenario.vcenter
    about = vim.AboutInfo(
        name="VMware vCenter Server",
        fullName=f"VMware vCenter Server {version.version} build-{version.build}",
        vendor="VMware, Inc.",
        version=version.version,
        patchLevel="0",
        build=version.build,
        localeVersion="INTL",
        localeBuild="000",
        osType="linux-x64",
        productLineId="vpx",
        apiType="VirtualCenter",
        apiVersion=version.api,
        instanceUuid=farm.instance,
        licenseProductName="VMware VirtualCenter Server",
        licenseProductVersion=f"{version.version[0]}.0",
    )
    store = farm.store
    managers = add_managers(farm)
    sessions = farm.sessions.live
    store.set(
        store.objects["SessionManager"],
        currentSession=lambda me: me.info() if me else None,
        sessionList=lambda me: (
            Vmomi.GetVmodlType("vim.UserSession[]")(s.info() for s in list(sessions.values())) if me else None
        ),
        messageLocaleList=["en"],
        supportedLocaleList=["en"],
        defaultLocale="en",
    )
    store.set(store.objects[SHARED], filter=lambda me: filters_of(me.collector if me else {}))
    store.set(store.objects["ViewManager"], viewList=lambda me: _views(store, me))
    store.set(store.objects["TaskManager"], recentTask=[], maxCollector=32)
    start = {**VCENTER_SETTINGS, HOT_VGPU: farm.scenario.vcenter.vgpu_vmotion}
    settings = [vim.option.OptionValue(key=k, value=v) for k, v in start.items()]
    store.set(store.objects["VpxSettings"], setting=settings, supportedOption=[])
    content = vim.ServiceInstanceContent(rootFolder=root.ref, about=about, **managers)
    store.new(
        vim.ServiceInstance,
        "ServiceInstance",
        content=content,
        serverClock=lambda _me: now(),
        capability=vim.Capability(provisioningSupported=True, multiHostSupported=True, userShellAccessSupported=False),
    )


def _views(store: Store, me: LabSession | None) -> Any:
    made = [mo.ref for mo in me.objects if mo.moid in store.objects] if me else []
    return Vmomi.GetVmodlType("vim.view.View[]")(ref for ref in made if isinstance(ref, vim.view.View))


@reads(vim.ServiceInstance, "RetrieveServiceContent")
def retrieve_content(call: Call) -> Any:
    """Return the references to the root folder and the managers."""
    return call.mo["content"]


@reads(vim.ServiceInstance, "CurrentTime")
def current_time(_call: Call) -> Any:
    """Return the server's clock."""
    return now()


@reads(vim.SessionManager, "Login")
def login(call: Call, userName: str, password: str, locale: str | None = None) -> Any:
    """Log in with the lab's user and password."""
    farm = call.farm
    known = userName == farm.scenario.vcenter.username
    if not (hmac.compare_digest(password.encode(), farm.password.encode()) and known):
        farm.sessions.refused_logins += 1
        raise vim.fault.InvalidLogin(msg="Cannot complete login due to an incorrect user name or password.")
    if call.session is not None:
        raise vim.fault.InvalidLogin(msg="The session is already logged in.")
    call.new_session = farm.sessions.start(userName, call.peer, call.agent)
    return call.new_session.info()


@reads(vim.SessionManager, "Logout")
def logout(call: Call) -> None:
    """End the caller's session."""
    if call.session is not None:
        call.farm.sessions.end(call.session)


@reads(vim.SessionManager, "TerminateSession", "Sessions.TerminateSession")
def terminate(call: Call, sessionId: Any) -> None:
    """End other sessions by key."""
    keys = {s.key: s for s in call.farm.sessions.live.values()}
    for key in sessionId:
        if key not in keys:
            raise vim.fault.NotFound(msg="The session is not found.")
        call.farm.sessions.end(keys[key])


@reads(vim.SessionManager, "SessionIsActive")
def session_is_active(call: Call, sessionID: str, userName: str) -> bool:
    """Return whether a session lives."""
    return any(s.key == sessionID and s.user == userName for s in call.farm.sessions.live.values())
