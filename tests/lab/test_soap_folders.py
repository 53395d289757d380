"""Folders: created once per name, renamed and destroyed with what is in them, with vCenter's refusals."""

import threading

import pytest
from pyVmomi import vim, vmodl


def names(folder):
    return [c.name for c in folder.childEntity]


def test_a_folder_is_created_renamed_and_destroyed(soap, lab):
    root = soap.content.rootFolder
    made = root.CreateFolder("one")
    # childType is not read here: with it pyVmomi takes type names for texts, in the whole process from then on
    assert (made.name, made.parent) == ("one", root)
    assert made in root.childEntity
    inner = made.CreateFolder("two").CreateFolder("three")
    assert soap.find(vim.Folder, "three") == inner

    soap.wait(made.Rename_Task("other"))
    soap.wait(made.Rename_Task("other"))  # its own name is not taken
    assert names(root) == ["DC0", "other"]
    soap.wait(made.Destroy_Task())
    assert names(root) == ["DC0"]
    for gone in (made, inner):
        with pytest.raises(vmodl.fault.ManagedObjectNotFound):
            _ = gone.name
    assert soap.calls() == [
        ("one", "CreateFolder"),
        ("two", "CreateFolder"),
        ("three", "CreateFolder"),
        ("other", "Rename_Task"),
        ("other", "Destroy_Task"),
    ]


def test_a_name_exists_once_in_its_parent(soap):
    root = soap.content.rootFolder
    first = root.CreateFolder("one")
    with pytest.raises(vim.fault.DuplicateName) as refused:
        root.CreateFolder("one")
    assert (refused.value.name, refused.value.object) == ("one", first)
    with pytest.raises(vim.fault.DuplicateName):
        root.CreateFolder("DC0")
    first.CreateFolder("one")  # elsewhere it is another name
    other = root.CreateFolder("two")
    with pytest.raises(vim.fault.DuplicateName):
        soap.wait(other.Rename_Task("one"))
    assert names(root) == ["DC0", "one", "two"]
    assert len(soap.calls()) == 3


def test_of_many_who_create_a_name_one_succeeds(lab, new_client):
    clients = [new_client(lab) for _ in range(8)]
    for turn in range(5):
        start, won = threading.Barrier(len(clients)), []

        def compete(client, start=start, won=won, name=f"turn {turn}"):
            start.wait()
            try:
                won.append(client.content.rootFolder.CreateFolder(name))
            except vim.fault.DuplicateName:
                return

        threads = [threading.Thread(target=compete, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1


def test_of_two_who_destroy_a_folder_one_succeeds(soap):
    made = soap.content.rootFolder.CreateFolder("one")
    tasks, refused = [made.Destroy_Task()], 0
    try:
        tasks.append(made.Destroy_Task())
    except vmodl.fault.ManagedObjectNotFound:
        refused += 1  # the first task was quicker than this call
    for task in tasks:  # either may be carried out first
        try:
            soap.wait(task)
        except vmodl.fault.ManagedObjectNotFound:
            refused += 1
    assert refused == 1
    assert soap.calls().count(("one", "Destroy_Task")) == 1


@pytest.mark.parametrize("name", ["", "   ", "x" * 81, "/" * 27])
def test_a_name_that_is_none_is_refused(soap, name):
    with pytest.raises(vim.fault.InvalidName):
        soap.content.rootFolder.CreateFolder(name)
    assert soap.calls() == []


@pytest.mark.parametrize(
    ("given", "kept"),
    [("a/b", "a%2fb"), ("a\\b", "a%5cb"), ("100%", "100%25"), ("a%2Fb", "a%2Fb"), ("x" * 80, "x" * 80)],
)
def test_names_are_kept_escaped(soap, given, kept):
    assert soap.content.rootFolder.CreateFolder(given).name == kept


def test_vm_folders_take_folders_and_what_is_in_them_is_safe(soap):
    datacenter = soap.content.rootFolder.childEntity[0]
    made = datacenter.vmFolder.CreateFolder("made")
    assert made._moId.startswith("group-v")
    for folder in (soap.content.rootFolder, datacenter.vmFolder):
        with pytest.raises(vmodl.fault.NotSupported):
            folder.Destroy_Task()
        with pytest.raises(vmodl.fault.NotSupported):
            folder.Rename_Task("x")
    full = soap.vm("train-01").parent
    assert full != datacenter.vmFolder
    with pytest.raises(vmodl.fault.NotSupported):
        soap.wait(full.Destroy_Task())
    assert soap.vm("train-01").parent == full
    assert soap.calls() == [("made", "CreateFolder")]


@pytest.mark.parametrize(
    ("privilege", "call"),
    [
        ("Folder.Create", lambda folder: folder.CreateFolder("x")),
        ("Folder.Delete", lambda folder: folder.Destroy_Task()),
        ("Folder.Rename", lambda folder: folder.Rename_Task("x")),
    ],
)
def test_privileges(make_lab, quick_scenario, new_client, privilege, call):
    text = quick_scenario.read_text("utf-8")
    lab = make_lab(f"{text}\nprivileges_denied: [{privilege}]\n")
    client = new_client(lab)
    root = client.content.rootFolder
    folder = root if privilege == "Folder.Create" else root.CreateFolder("one")
    with pytest.raises(vim.fault.NoPermission) as refused:
        call(folder)
    assert (refused.value.privilegeId, refused.value.object) == (privilege, folder)


def test_the_judge_has_nothing_against_folders(soap, lab):
    soap.wait(soap.content.rootFolder.CreateFolder("one").Destroy_Task())
    soap.content.sessionManager.Logout()
    assert lab.check()["ok"]


def test_vms_are_moved_and_stay_the_same(soap):
    ours = soap.find(vim.Folder, "vm")
    vm, twin = soap.vm("train-01"), soap.vm("train-02")
    before, key = vm.parent, vm.config.changeVersion
    made = ours.CreateFolder("quarantine")
    soap.wait(made.MoveIntoFolder_Task([vm]))
    soap.wait(made.MoveIntoFolder_Task([vm]))  # it is there already
    assert (vm.parent, vm.config.changeVersion) == (made, key)
    assert soap.vm("train-01") == vm
    assert vm in made.childEntity
    assert vm not in before.childEntity
    soap.wait(twin.Rename_Task("train-01"))
    with pytest.raises(vim.fault.DuplicateName):
        soap.wait(made.MoveIntoFolder_Task([twin]))
    with pytest.raises(vmodl.fault.NotSupported):
        soap.content.rootFolder.MoveIntoFolder_Task([vm])
    assert soap.calls().count(("train-01", "MoveIntoFolder_Task")) == 1
