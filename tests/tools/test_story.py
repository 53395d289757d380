"""`make story`: a page is carried out, with its files and exit codes, and no lab is left of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.places import ROOT

from tools.story import STATE, argv_of

PAGE = """
```text name=words
one
two
```

```console
$ grep -c o words
2
```

```console norun: it would fail
$ false
```

```console exit=1
$ grep two words
two
$ grep three words
```
"""


def carried_out(tmp_path, page):
    (tmp_path / "page.md").write_text(page)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    argv = [sys.executable, "-m", "tools.story", str(tmp_path / "page.md")]
    return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_a_page_is_carried_out_and_its_folder_removed(tmp_path):
    done = carried_out(tmp_path, PAGE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:7] == ["", "$ grep -c o words", "2", "", "$ grep two words", "two", ""]
    assert "page.md: carried out in" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"]


def test_another_exit_code_than_the_page_has_ends_it(tmp_path):
    done = carried_out(tmp_path, PAGE.replace("exit=1", "exit=2"))
    assert done.returncode == 1
    assert "grep three words ended with 1, and not with 2" in done.stderr


def test_the_state_of_a_user_is_that_of_the_run():
    assert argv_of(f"cp a {STATE}/lab/shared/", Path("/s")) == ["cp", "a", "/s/lab/shared/"]
    assert argv_of("vsphere-ai lab plant '{kind: x}'", Path("/s"))[1:] == [
        "-m",
        "vsphere_ai",
        "lab",
        "plant",
        "{kind: x}",
    ]
