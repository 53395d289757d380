"""Properties every vCenter shows whatever it manages: clients read them without asking whether they are set."""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vim, vmodl

from vsphere_ai.lab.farm import Farm
from vsphere_ai.lab.managed import host_managers
from vsphere_ai.lab.store import ManagedObject, fill


def complete(farm: Farm) -> None:
    """Add what the objects of a finished farm still lack, and join the datastores with their hosts."""
    store = farm.store
    stores = store.of(vim.Datastore)
    for mo in store.of(vim.HostSystem):
        host_managers.start_managers(farm, mo)
        packages = vmodl.KeyAnyValue(key="numCpuPackages", value=mo["summary"].hardware.numCpuPkgs)
        store.set(mo, licensableResource=vim.LicenseManager.LicensableResourceInfo(resource=[packages]))
    for datastore in stores:
        hosts = [h for h in store.of(vim.HostSystem) if datastore.ref in h["datastore"]]
        store.set(datastore, host=[vim.Datastore.HostMount(key=h.ref, mountInfo=_mount(datastore)) for h in hosts])
    for mo in store.of(vim.ClusterComputeResource):
        shown = mo["configurationEx"]
        configuration = vim.cluster.ConfigInfo(dasConfig=shown.dasConfig, drsConfig=shown.drsConfig, rule=shown.rule)
        store.set(mo, configuration=configuration, summaryEx=mo["summary"])
    for mo in (*stores, *store.of(vim.HostSystem), *store.of(vim.EnvironmentBrowser)):
        shown_at = mo.extra.get("compute", mo)
        seen = [mo.ref] if isinstance(mo.ref, vim.Datastore) else list(shown_at["datastore"])
        browser = store.new(vim.host.DatastoreBrowser, prefix="datastoreBrowser", datastore=seen)
        store.set(mo, **{"browser" if isinstance(mo.ref, vim.Datastore) else "datastoreBrowser": browser.ref})
    for mo in list(store.objects.values()):
        _neutral(farm, mo)


def _neutral(farm: Farm, mo: ManagedObject) -> None:
    for info in mo.ref._GetPropertyList():
        if not info.flags & Vmomi.F_OPTIONAL and mo[info.name] is None and issubclass(info.type, Vmomi.DataObject):
            farm.store.set(mo, **{info.name: fill(info.type())})


def _mount(datastore: ManagedObject) -> Any:
    path = datastore["info"].url.removeprefix("ds://").rstrip("/")
    return vim.host.MountInfo(path=path, accessMode="readWrite", mounted=True, accessible=True)
