"""What happens by chance while a run is under way, and no plan can know: it has to end well, or to clean up."""

from __future__ import annotations

import random

from honesty.case import Case

STRIKES: dict[str, dict] = {
    "a reply is lost": {"on": "any-mutation", "nth": 2, "do": "lost-reply"},
    "replies are lost": {"on": "any-mutation", "probability": 0.2, "times": 3, "do": "lost-reply"},
    "connections break": {"on": "any", "probability": 0.05, "times": 3, "when": "before", "do": "reset"},
    "vCenter restarts": {"on": "any-mutation", "nth": 3, "do": {"restart": "500ms", "starting": "300ms"}},
    "the proxy answers 503": {"on": "any", "probability": 0.1, "times": 4, "do": 503},
    "sessions end": {"on": "any", "probability": 0.05, "times": 2, "do": "expire-session"},
    "a reconfiguration fails": {"on": "ReconfigVM_Task", "nth": 1, "do": {"task-fails": "GenericVmConfigFault"}},
    "maintenance mode is refused": {"on": "EnterMaintenanceMode_Task", "nth": 1, "do": {"task-fails": "InvalidState"}},
    "graphics are refused": {"on": "UpdateGraphicsConfig", "nth": 1, "do": {"fault": "HostConfigFault"}},
    "nvidia-smi refuses a mode": {"on": "ssh: nvidia-smi.* -mig ", "nth": 1, "do": {"exit": 19}},
    "the order to reboot is refused": {"on": "ssh: reboot", "nth": 1, "do": {"exit": 1}},
    "SSH breaks at the reboot": {"on": "ssh: reboot", "nth": 1, "when": "before", "do": "drop"},
    "SSH connections break": {"on": "ssh-connect", "do": "reset"},
    "a guest's shutdown is refused": {"on": "ShutdownGuest", "nth": 2, "do": {"fault": "ToolsUnavailable"}},
    "a VM does not power on": {"on": "PowerOnVM_Task", "nth": 1, "do": {"task-fails": "InvalidState"}},
    "an alarm goes red": {"on": "ExitMaintenanceMode_Task", "nth": 1, "do": {"raise-alarm": "Host memory usage"}},
    "a GPU is lost": {"on": "EnterMaintenanceMode_Task", "nth": 1, "do": {"gpu-missing": "0000:3b:00.0"}},
    "a host does not come back": {"on": "EnterMaintenanceMode_Task", "nth": 1, "do": "host-never-returns"},
    "a host loses its power": {"on": "any-mutation", "nth": 2, "when": "after", "do": "power-loss"},
    "another host key": {"on": "EnterMaintenanceMode_Task", "nth": 1, "do": "key-swap"},
    "slow": {"on": "any", "probability": 0.1, "do": {"delay": "100ms"}},
}


def into(case: Case, rng: random.Random) -> Case:
    """Let one or two things happen during the run of a case."""
    for name in rng.sample(sorted(STRIKES), rng.choice((1, 1, 2))):
        case.strikes.append(dict(STRIKES[name]))
    return case
