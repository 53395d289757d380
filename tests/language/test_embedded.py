"""Documents inside of others: a configuration as it is deployed is read with the places of its file."""

import pytest

from vsphere_ai.errors import InputError
from vsphere_ai.gpu.mig import parted
from vsphere_ai.language.yaml_files.document import FaultCollector
from vsphere_ai.language.yaml_files.embedded import load_holding

PLAIN = """version: v1
mig-configs:
  half:
    - devices: all
      mig-enabled: true
      mig-devices:
        "3g.40gb": 2
"""


def indented(text, blanks):
    return "".join(f"{' ' * blanks}{line}" for line in text.splitlines(keepends=True))


CONFIG_MAP = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: own\ndata:\n  config.yaml: |\n{indented(PLAIN, 4)}"
HELM = f"migManager:\n  config:\n    name: own\n    data:\n      config.yaml: |-\n{indented(PLAIN, 8)}"
LIST = "kind: List\nitems:\n- kind: ConfigMap\n  metadata: {name: own}\n  data:\n    config.yaml: |\n" + indented(
    PLAIN, 6
)
SERVICE = "kind: ServiceAccount\nmetadata:\n  name: mig-manager\n"
STREAM = f"{SERVICE}---\n{CONFIG_MAP}---\nkind: DaemonSet\n"
OTHER = CONFIG_MAP.replace("name: own", "name: second").replace("3g.40gb", "7g.80gb").replace(": 2", ": 1")
QUOTED = 'data:\n  config.yaml: "version: v1\\nmig-configs: {half: [{devices: all, mig-enabled: false}]}"\n'


def read(tmp_path, text):
    file = tmp_path / "file.yaml"
    file.write_text(text)
    faults = FaultCollector()
    document = load_holding(file, parted.CONFIGS, faults)

    def refuse(path, message, help=""):
        document.refuse(faults, path, message, help)

    configs = parted.read(document.data, refuse)
    faults.raise_any()
    return configs


@pytest.mark.parametrize(
    "text", [PLAIN, CONFIG_MAP, HELM, LIST, STREAM, QUOTED], ids=["plain", "map", "helm", "list", "stream", "quoted"]
)
def test_wrappers_are_opened(tmp_path, text):
    assert list(read(tmp_path, text)) == ["half"]


@pytest.mark.parametrize("text", [PLAIN, CONFIG_MAP, HELM, LIST, STREAM])
def test_a_fault_keeps_its_place_in_the_file(tmp_path, text):
    wrong = text.replace("mig-enabled: true", "mig-enabled: perhaps")
    with pytest.raises(InputError) as error:
        read(tmp_path, wrong)
    (fault,) = error.value.diagnostics
    line = wrong.splitlines()[fault.mark.line - 1]
    assert line[fault.mark.column - 1 :] == "perhaps"
    assert "perhaps" in fault.excerpt


def test_configurations_of_several_documents_are_all_there(tmp_path):
    configs = read(tmp_path, f"{CONFIG_MAP}---\n{OTHER}")
    assert {name: entries[0].wanted[0].profile for name, entries in configs.items()} == {
        "half": "3g.40gb", "second/half": "7g.80gb",
    }  # fmt: skip


def test_a_version_that_one_of_them_lacks_is_missing(tmp_path):
    second = OTHER.replace("    version: v1\n", "")
    with pytest.raises(InputError) as error:
        read(tmp_path, f"{CONFIG_MAP}---\n{second}")
    (fault,) = error.value.diagnostics
    assert "version must be v1" in fault.message
    assert fault.mark.line > CONFIG_MAP.count("\n")


@pytest.mark.parametrize("text", [
    "spec:\n  migManager:\n    config:\n      name: custom-mig\n",
    "migManager:\n  config:\n    name: custom-mig\n",
])  # fmt: skip
def test_a_reference_names_the_config_map(tmp_path, text):
    with pytest.raises(InputError, match="custom-mig"):
        read(tmp_path, text)


def test_faults_inside_of_a_text_are_those_of_the_file(tmp_path):
    twice = CONFIG_MAP.replace("    mig-configs:", "    version: v2\n    mig-configs:")
    with pytest.raises(InputError) as error:
        read(tmp_path, twice)
    (fault,) = error.value.diagnostics
    assert ("given twice" in fault.message, twice.splitlines()[fault.mark.line - 1].strip()) == (True, "version: v2")


def test_a_key_given_twice_is_a_fault_where_the_values_differ(tmp_path):
    entries = PLAIN.partition("mig-configs:\n")[2]
    assert list(read(tmp_path, PLAIN + entries)) == ["half"]
    with pytest.raises(InputError) as error:
        read(tmp_path, PLAIN + entries.replace(": 2", ": 1"))
    (fault,) = error.value.diagnostics
    assert "'half' is given twice" in fault.message


def test_merge_keys_and_words_are_those_of_a_program_in_go(tmp_path):
    text = PLAIN.replace("    - devices: all\n", "    - &all\n      devices: all\n").replace("true", "yes")
    configs = read(tmp_path, f"{text}  both:\n    - {{<<: *all, devices: [010]}}\n")
    assert [(each.enabled, each.devices, len(each.wanted)) for each in configs["both"]] == [(True, (8,), 2)]
