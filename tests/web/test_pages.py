"""Pages and metrics of `serve` hold no secret, however it is spelt there."""

from __future__ import annotations

from support.sites import WORLD, site

from vsphere_ai.app.watching.farm_readings import FarmState
from vsphere_ai.errors import Unreachable
from vsphere_ai.security import redaction
from vsphere_ai.security.secret_ref import Secret


def test_a_secret_is_masked_in_every_page():
    with redaction.fresh():
        secret = "pw<&\"'of-vcenter"
        Secret(secret)
        error = Unreachable(f"vc1 refuses {secret}", "look at it")
        with site(FarmState(WORLD, error=error, failures=1)) as made:
            made.browser.enter(made.links[-1])
            for path in ("/", "/estate", "/gpus", "/paths", "/drift", "/runs", "/metrics"):
                answer = made.browser.get(path)
                assert answer.status == 200
                assert "of-vcenter" not in answer.text
                assert path in ("/runs", "/metrics") or "vc1 refuses ***" in answer.text
