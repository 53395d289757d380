"""`make honesty`: random farms, inventories and playbooks; `plan` says yes exactly where `apply` then does it.

tests/honesty/run.py --cases 520            as many cases, the seed is the time of day and is printed
tests/honesty/run.py --seed 7 --case 113    one of them again, with all that was said
tests/honesty/run.py --only no-reboot       windows without a reboot on hosts whose GPUs are full
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1])]

from honesty.cases import NO_REBOOT, PRESSED  # noqa: E402
from honesty.cases import case as case_of  # noqa: E402
from honesty.judge import Verdict  # noqa: E402
from honesty.report import Report, keep, outcome  # noqa: E402

FAILURES = Path(os.environ.get("RELIABILITY_FAILURES", HERE.parents[1] / ".failures"))
KINDS = {"any": 0, "pressed": PRESSED, "no-reboot": NO_REBOOT}
"""Kind of cases -> the number of the first one."""


def main() -> int:
    """Run the cases; 0 when every promise held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--cases", type=int, default=520)
    parser.add_argument("--case", type=int, action="append", help="only this one; may be given several times")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--only", choices=[*KINDS], default="any", help="cases of one kind; any: of all kinds")
    parser.add_argument("--jobs", type=int, default=2 * (os.cpu_count() or 1))
    given = parser.parse_args()
    first = KINDS[given.only] + given.first
    numbers = given.case or list(range(first, first + given.cases))
    print(f"honesty: seed {given.seed}, {len(numbers)} cases", flush=True)
    report = Report(given.seed)
    jobs, spawn = min(given.jobs, len(numbers)), multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="honesty-") as folder, spawn.Pool(jobs, _begin, (folder,)) as pool:
        for number, found in pool.imap_unordered(_one, [(given.seed, n) for n in numbers]):
            report.add(number, found)
            if given.case and len(given.case) < 10:
                print(found.text)
    print(report.text(), flush=True)
    return 1 if report.wrong else 0


_court = None


def _begin(above: str) -> None:
    global _court
    from honesty.judge import Court
    from honesty.labs import Labs
    from reliability.harness import Tool

    folder = Path(tempfile.mkdtemp(dir=above))
    (folder / "said").mkdir()
    _court = Court(Labs(), Tool(folder / "said"), folder)


def _one(asked: tuple[int, int]):
    seed, number = asked
    made = case_of(seed, number)
    try:
        verdict = _court.judge(made)
    except Exception:
        verdict = Verdict(made, wrong=[f"the test itself failed: {traceback.format_exc()}"])
    found = outcome(verdict, seed, number)
    if verdict.wrong:
        keep(verdict, FAILURES / f"honesty-{seed}-{number}", found)
    return number, found


if __name__ == "__main__":
    sys.exit(main())
