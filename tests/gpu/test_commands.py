import pytest

from vsphere_ai.gpu import commands
from vsphere_ai.model.names.pci_address import normal_pci


def test_argv_of_every_command():
    pci = "0000:3b:00.0"
    bus = "00000000:3B:00.0"
    assert commands.set_mig_mode(pci, True) == ("nvidia-smi", "-i", bus, "-mig", "1")
    assert commands.set_mig_mode(pci, False) == ("nvidia-smi", "-i", bus, "-mig", "0")
    assert commands.create_instances(pci, [(9, 4), (19, 0)]) == (
        "nvidia-smi",
        "mig",
        "-i",
        bus,
        "-cgi",
        "9:4,19:0",
        "-C",
    )
    assert commands.destroy_compute_instance(pci, 2, 0) == (
        "nvidia-smi", "mig", "-i", bus, "-dci", "-gi", "2", "-ci", "0",
    )  # fmt: skip
    assert commands.destroy_instance(pci, 13) == ("nvidia-smi", "mig", "-i", bus, "-dgi", "-gi", "13")


def test_the_query_asks_for_the_fields_the_parser_reads():
    assert commands.QUERY_GPUS[1] == "--query-gpu=" + ",".join(commands.FIELDS)


@pytest.mark.parametrize("spelling", ["00000000:3B:00.0", "0000:3b:00.0", " 0000:3B:00.0 ", "3b:00.0", "3B:00.0"])
def test_one_spelling_of_a_pci_address(spelling):
    assert normal_pci(spelling) == "0000:3b:00.0"


def test_a_domain_beyond_zero_is_kept():
    assert normal_pci("00000001:00:00.0") == "0001:00:00.0"
    assert commands.destroy_instance("0001:00:00.0", 0)[3] == "00000001:00:00.0"


@pytest.mark.parametrize("bad", ["", "0", "3b:00", "0000:3b:00.8", "0000:3b:00.0; reboot", "12340000:3b:00.0", "GPU-1"])
def test_anything_that_is_no_pci_address_is_refused(bad):
    with pytest.raises(ValueError, match="not a PCI address"):
        commands.set_mig_mode(bad, True)


@pytest.mark.parametrize("bad", [-1, True, "9", 1.0, None])
def test_numbers_are_numbers(bad):
    for build in (
        lambda: commands.create_instances("0000:3b:00.0", [(bad, 0)]),
        lambda: commands.create_instances("0000:3b:00.0", [(9, bad)]),
        lambda: commands.destroy_instance("0000:3b:00.0", bad),
        lambda: commands.destroy_compute_instance("0000:3b:00.0", 1, bad),
    ):
        with pytest.raises(ValueError, match="not a profile id"):
            build()


def test_an_empty_list_would_create_nothing():
    with pytest.raises(ValueError, match="no GPU instance"):
        commands.create_instances("0000:3b:00.0", [])
