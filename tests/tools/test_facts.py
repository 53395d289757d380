"""Tables of dated facts are made again from public material, and keep what is older."""

from __future__ import annotations

from datetime import date

import pytest
import yaml

from tools import facts

ARGUMENTS = """
class BaseConfig:
    compute_environment: str
    distributed_type: str
class ClusterConfig(BaseConfig):
    num_processes: int = -1
    new_config: dict = None
"""
KINDS = 'class DistributedType(str):\n    NO = "NO"\n    MULTI_NEW = "MULTI_NEW"\n'


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "accelerate"
    for name, text in (
        ("__init__.py", '__version__ = "1.19.2"\n'),
        ("commands/config/config_args.py", ARGUMENTS),
        ("utils/dataclasses.py", KINDS),
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return tmp_path


def test_a_table_of_accelerate_has_the_keys_of_the_release_and_names_the_older_ones(package):
    before = {"keys": ["num_processes", "gone"], "older_keys": ["tp_config"], "types": ["NO", "MULTI_OLD"]}
    made = facts.accelerate(package, before)
    assert made["release"] == "1.19"
    own = ("compute_environment", "distributed_type", "new_config", "num_processes")
    assert made["keys"] == sorted((*own, *facts.CONVERTED))
    assert made["older_keys"] == ["gone", "tp_config"]
    assert (made["types"], made["older_types"]) == (["MULTI_NEW", "NO"], ["MULTI_OLD"])


def test_what_is_no_source_is_refused_with_what_would_work(package, tmp_path):
    with pytest.raises(facts.NotASource, match="unpack the wheel"):
        facts.accelerate(tmp_path / "nothing", {})
    (package / "accelerate" / "utils" / "dataclasses.py").write_text("class Other:\n    pass\n", "utf-8")
    with pytest.raises(facts.NotASource, match="no class DistributedType"):
        facts.accelerate(package, {})


def test_a_table_of_operators_has_the_newest_patch_of_each_release(tmp_path):
    file = tmp_path / "release.yaml"
    before = {"about": "operators", "source": "NVIDIA", "network_operator": "26.10.0",
              "network_operator_patches": ["26.7.1", "26.10.0"], "network_operator_oldest": "26.7"}  # fmt: skip
    file.write_text("NetworkOperator: {image: network-operator, version: v26.10.1}\n", "utf-8")
    patched = {"network_operator": "26.10.1", "network_operator_patches": ["26.7.1", "26.10.1"]}
    assert facts.operators(file, before) == {**before, **patched}
    file.write_text("NetworkOperator: {version: v27.1.0}\n", "utf-8")
    released = {"network_operator": "27.1.0", "network_operator_patches": ["26.7.1", "26.10.0", "27.1.0"]}
    assert facts.operators(file, before) == {**before, **released, "network_operator_oldest": "26.10"}
    file.write_text("NetworkOperator: {version: v26.10.0-rc.2}\n", "utf-8")
    with pytest.raises(facts.NotASource, match="of a release"):
        facts.operators(file, before)


def test_the_table_of_operators_that_is_there_can_be_made_again(tmp_path):
    before = yaml.safe_load(facts.TABLES["operators"].read_text("utf-8"))
    file = tmp_path / "release.yaml"
    file.write_text(f"NetworkOperator: {{version: v{before['network_operator']}}}\n", "utf-8")
    assert facts.operators(file, before) == before


def test_a_table_of_nhc_has_the_checks_of_its_scripts(tmp_path):
    before = {"about": "checks", "checks": ["gone"], "of_azure": ["gpu_count"]}
    with pytest.raises(facts.NotASource, match="mej/nhc"):
        facts.nhc(tmp_path, before)
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "lbnl_hw.nhc").write_text("function check_hw_ib() {\n}\nfunction helper() {\n}\n", "utf-8")
    (tmp_path / "scripts" / "own.nhc").write_text("function check_fs_free() {\n}\n", "utf-8")
    assert facts.nhc(tmp_path, before) == {**before, "checks": ["fs_free", "hw_ib"]}


def test_a_table_of_cloud_init_has_the_keys_of_its_schema_and_keeps_those_of_older_images(tmp_path):
    before = {"about": "keys", "keys": ["of_an_older_image"]}
    with pytest.raises(facts.NotASource, match="canonical/cloud-init"):
        facts.cloud_init(tmp_path, before)
    schema = tmp_path / "cloudinit" / "config" / "schemas" / "schema-cloud-config-v1.json"
    schema.parent.mkdir(parents=True)
    schema.write_text('{"properties": {"runcmd": {}, "users": {}}}', "utf-8")
    assert facts.cloud_init(tmp_path, before) == {**before, "keys": ["of_an_older_image", "runcmd"]}


VGPUS = """data:
  config.yaml: |
    version: v1
    vgpu-configs:
      A100D-3-40C: [{devices: all, vgpu-devices: {A100D-3-40C: 2}}]
      RTX5000-Ada-8Q: [{devices: all, vgpu-devices: {RTX5000-Ada-8Q: 4}}]
      NEW9-96C: [{devices: all, vgpu-devices: {NEW9-96C: 1}}]
      DC-16Q: [{device-filter: [a], devices: all, vgpu-devices: {DC-16Q: 6}}, {devices: all, vgpu-devices: {DC-16Q: 2}}]
"""


def test_a_table_of_vgpu_types_keeps_those_of_older_drivers_and_tells_two_boards_of_a_name_apart(tmp_path):
    file = tmp_path / "0500_configmap.yaml"
    before = {"schema_version": 1, "about": "types", "types": {"A100D": {"4C": 20}, "DC": {}, "DC-32GB": {"8C": 4}}}
    file.write_text(VGPUS, "utf-8")
    assert facts.vgpu_types(file, before)["types"] == {
        "A100D": {"3-40C": 2, "4C": 20}, "DC": {"16Q": 6}, "DC-32GB": {"16Q": 2, "8C": 4},
        "NEW9": {"96C": 1}, "RTX5000-Ada": {"8Q": 4},
    }  # fmt: skip
    file.write_text(VGPUS.replace("NEW9-96C: 1", "NEW9: 1"), "utf-8")
    with pytest.raises(facts.NotASource, match="'NEW9' is no vGPU type"):
        facts.vgpu_types(file, before)
    file.write_text("data: {}\n", "utf-8")
    with pytest.raises(facts.NotASource, match="give 0500_configmap"):
        facts.vgpu_types(file, before)


NCCL = """
NCCL_PARAM(IbTc, "IB_TC", -1);
NCCL_PARAM(
    Threads, "NTHREADS", -2);
DEFINE_NCCL_PARAM(level, ncclDebugLogLevel, NCCL_DEBUG, NONE, 0,
  ncclParamOneOf<x>(makeOptions(makeOption("WARN", 1, ""), makeOption("INFO", 2, ""))), "words");
DEFINE_NCCL_PARAM(name, bool, NCCL_SET_NAME, false, 0, NCCL_PARAM_DEFAULT, "a name");
DEFINE_NCCL_PARAM(file, const char*, NCCL_DEBUG_FILE, nullptr, 0, NCCL_PARAM_DEFAULT, "a file");
const char* topoPathTypeStr[] = {"LOC", "SYS", "NET", "DIS"};
auto a = ncclGetEnv("NCCL_IB_HCA"), b = ncclGetLevel(&l, "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL");
"""


def test_a_table_of_nccl_has_its_variables_by_the_way_they_are_read(tmp_path):
    for name, text in (
        ("makefiles/version.mk", "NCCL_MAJOR   := 2\nNCCL_MINOR := 31\nNCCL_PATCH:= 0\n"),
        ("src/param.cc", NCCL),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    made = facts.nccl(tmp_path, {"numbers": ["GONE", "IB_TC"]})
    assert made["release"] == "2.31.0"
    assert (made["numbers"], made["older_numbers"]) == (["IB_TC", "NTHREADS", "P2P_DISABLE"], ["GONE"])
    assert (made["booleans"], made["levels"], made["distances"]) == (["SET_NAME"], ["P2P_LEVEL"], ["LOC", "SYS"])
    assert (made["words"], made["texts"]) == ({"DEBUG": ["WARN", "INFO"]}, ["DEBUG_FILE", "IB_HCA"])
    (tmp_path / "src/param.cc").write_text("int main() {}\n", "utf-8")
    with pytest.raises(facts.NotASource, match="work tree of NVIDIA/nccl"):
        facts.nccl(tmp_path, {})
    with pytest.raises(facts.NotASource, match=r"no makefiles/version\.mk"):
        facts.nccl(tmp_path / "src", {})


@pytest.mark.parametrize("name", sorted(facts.TABLES))
def test_the_tables_of_the_package_are_as_the_command_writes_them(name):
    text = facts.TABLES[name].read_text("utf-8")
    table = yaml.safe_load(text)
    day = table.pop("read")
    assert isinstance(day, date)
    assert yaml.safe_load(facts.text_of(table, "", day)) == yaml.safe_load(text)


def test_another_name_is_answered_with_the_names(capsys):
    assert facts.main(["boards", "x"]) == 2
    assert "accelerate|cloud-init|nccl|nhc|operators" in capsys.readouterr().err
