"""What a script learns of its hosts: loopback on one machine, a network between several."""

from tests.supervisor.running import attempt
from trackside.records.group import GroupRecord
from trackside.supervisor.gang import DEFAULT_PORT, master_port
from trackside.supervisor.script_start import script_environment

APART = GroupRecord(
    addresses={"algo-1": "10.0.0.1", "algo-2": "10.0.0.2"}, interface="eth1", shares_files=False
)


def test_hosts_of_one_machine_are_told_so_and_get_a_port_of_their_own(tmp_path):
    mine = attempt(tmp_path, num_hosts=2)
    mine.gang.meet()
    environment = script_environment(mine.context, mine.folder, mine.gang.master_port)
    assert environment["TRACKSIDE_HOSTS_SHARED_MACHINE"] == "1"
    assert environment["MASTER_ADDR"].startswith("127.")
    assert 10_000 <= int(environment["MASTER_PORT"]) < 32_768


def test_hosts_of_several_machines_have_the_contract_s_port_at_the_lead_s_address(tmp_path):
    mine = attempt(tmp_path, num_hosts=2)
    APART.write(mine.context.folder)
    mine.gang.meet()
    environment = script_environment(mine.context, mine.folder, mine.gang.master_port)
    assert "TRACKSIDE_HOSTS_SHARED_MACHINE" not in environment
    assert environment["MASTER_ADDR"] == "10.0.0.1"
    assert environment["MASTER_PORT"] == str(DEFAULT_PORT)
    assert mine.context.group.interface == "eth1"
    assert mine._plan().addresses == APART.addresses


def test_two_jobs_of_one_machine_seldom_choose_the_same_port():
    shared = GroupRecord(addresses={"algo-1": "127.0.0.1"}, interface="lo")
    assert len({master_port(shared) for _ in range(50)}) > 40
