#!/usr/bin/env python3
"""Plan, comment and apply in a CI job, on GitHub and GitLab. Needs Python 3.9 and vsphere-ai on PATH, nothing else.

`plan` writes the saved plan and its reports, `comment` writes them into the pull or merge request, in place of its
earlier comment, and `apply` carries the saved plan out. Settings are environment variables, so that no value from
outside becomes part of a command: PLAYBOOK, INVENTORY, OUT (the folder of all files), REBOOT and DESTROY (numbers that
are expected).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlsplit

MOST = 65_535
"""Characters of a comment: the limit of GitHub."""
SIGNS = {"+": "create", "~": "update", "-": "delete"}
REPORTS = {"markdown": "plan.md", "html": "plan.html", "junit": "plan.junit.xml", "sarif": "plan.sarif"}


def main(arguments: list[str]) -> int:
    """Run one of the three."""
    steps = {"plan": plan, "comment": comment, "apply": apply}
    if len(arguments) != 1 or arguments[0] not in steps:
        print(f"usage: vsphere_ai_ci.py {'|'.join(steps)}", file=sys.stderr)
        return 64
    out = Path(os.environ.get("OUT", "vsphere-ai-out"))
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    return steps[arguments[0]](out)


def plan(out: Path) -> int:
    """Plan, save the plan, and write its reports; returns the exit code of `vsphere-ai plan`."""
    for path in (*out.glob("plan.*"), *out.glob("run.*")):  # of an earlier pipeline, on a runner that keeps its folder
        path.unlink()
    saved, playbook = out / "plan.json", os.environ["PLAYBOOK"]
    code, text = run("plan", *inventory(), playbook, "--to", str(saved))
    (out / "plan.txt").write_text(text, "utf-8")
    if not saved.exists():
        (out / "plan.md").write_text(refused(code, text), "utf-8")
        summarize(out, steps=0)
        return code or 1
    for form, name in REPORTS.items():
        failed, said = run("report", str(saved), "-o", form, "--to", str(out / name))
        if failed:
            print(said)
            return failed
    document = json.loads(saved.read_text("utf-8"))
    counts = dict.fromkeys(SIGNS.values(), 0)
    for item in document["items"]:
        for change in item["changes"]:
            counts[SIGNS.get(change.get("sign", ""), "update")] += 1
    # the keys of GitLab's report of Terraform plans; not verified against a GitLab server
    (out / "plan.terraform.json").write_text(json.dumps(counts), "utf-8")
    summarize(out, steps=len(document["steps"]))
    return code


def apply(out: Path) -> int:
    """Carry out the saved plan, and write the reports of the run; returns the exit code of `vsphere-ai apply`."""
    saved = out / "plan.json"
    numbers = [f"--{name}={os.environ[name.upper()]}" for name in ("reboot", "destroy") if os.environ.get(name.upper())]
    code, text = run("apply", *inventory(), str(saved), *numbers)
    (out / "apply.txt").write_text(text, "utf-8")
    begun = re.search(r"^Run (\S+)$", text, re.MULTILINE)
    if begun:
        for form, name in REPORTS.items():
            run("run", "report", begun[1], "-o", form, "--to", str(out / name.replace("plan", "run")), quiet=True)
        append("GITHUB_STEP_SUMMARY", read(out / "run.md"))
    return code


def inventory() -> list[str]:
    """Return the option that names the inventory, where one is named."""
    return ["-i", os.environ["INVENTORY"]] if os.environ.get("INVENTORY") else []


def run(*words: str, quiet: bool = False) -> tuple[int, str]:
    """Run vsphere-ai; print what it prints as it comes, and return its exit code with it."""
    argv = [os.environ.get("VSPHERE_AI", "vsphere-ai"), *words]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    said = []
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", errors="replace", env=environment) as process:  # fmt: skip
        for line in process.stdout or ():
            said.append(line)
            if not quiet:
                print(line, end="", flush=True)
    return process.returncode, "".join(said)


def refused(code: int, text: str) -> str:
    """Return the comment for a plan that was refused: its text, which cannot leave its fence."""
    runs = re.findall("`+", text)
    fence = "`" * max(3, *(len(each) + 1 for each in runs)) if runs else "```"
    return f"## vsphere-ai: no plan, exit code {code}\n\n{fence}text\n{text[: MOST - 2_000]}\n{fence}\n"


def summarize(out: Path, steps: int) -> None:
    """Write the summary of the job, and its output `changes`, where GitHub asks for them."""
    append("GITHUB_STEP_SUMMARY", read(out / "plan.md"))
    append("GITHUB_OUTPUT", f"changes={'true' if steps else 'false'}\n")


def append(variable: str, text: str) -> None:
    """Append text to the file that a variable names."""
    if os.environ.get(variable):
        with open(os.environ[variable], "a", encoding="utf-8") as file:
            file.write(text)


def read(path: Path) -> str:
    """Return the text of a file; "" where there is none."""
    return path.read_text("utf-8") if path.exists() else ""


# -- the comment


def comment(out: Path) -> int:
    """Write the report of the plan into the pull or merge request, over the comment that an earlier job wrote there."""
    marker = f"<!-- vsphere-ai plan {os.environ['PLAYBOOK'].replace('--', '')} -->"
    text = f"{marker}\n{read(out / 'plan.md') or 'There is no plan: see the log of the job.'}"
    if len(text) > MOST:
        end = "\n\n… The rest is in the artifacts of the job.\n"
        text = text[: MOST - len(end)] + end
    try:
        forge = GitLab() if os.environ.get("GITLAB_CI") else GitHub()
        earlier = next((c for c in forge.comments() if forge.is_own(c) and c["body"].startswith(marker)), None)
        forge.write(text, earlier)
    except (OSError, KeyError, ValueError) as error:
        print(f"the comment was not written: {said(error)}", file=sys.stderr)
        return 1
    print("The comment was written anew." if earlier else "A comment was written.")
    return 0


def said(error: Exception) -> str:
    """Return an error in words, without the request, which has the token."""
    if isinstance(error, urllib.error.HTTPError):
        may = "; may the token write comments?" if error.code in (401, 403, 404) else ""
        return f"{error.code} {error.reason}{may}"
    if isinstance(error, KeyError):
        return f"the variable {error} is not set"
    return str(error)


class Forge:
    """Comments of one request, over an API with JSON. Redirections are not followed: the token is for one server."""

    def __init__(self, api: str, header: tuple[str, str]) -> None:
        parts = urlsplit(api)
        if parts.scheme != "https" and parts.hostname not in ("127.0.0.1", "::1"):
            raise ValueError("the API is not https")
        self._api, self._header = api.rstrip("/"), header
        self._opener = urllib.request.build_opener(_NoRedirect)

    def call(self, method: str, path: str, body: object = None) -> object:
        """Call the API, and return its answer."""
        name, value = self._header
        request = urllib.request.Request(
            f"{self._api}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={name: value, "Content-Type": "application/json", "Accept": "application/json"},
        )
        with self._opener.open(request, timeout=30) as answer:
            return json.load(answer)

    def pages(self, path: str) -> list[dict]:
        """Return all entries of a list, page by page."""
        found: list[dict] = []
        for page in range(1, 101):
            got = self.call("GET", f"{path}?per_page=100&page={page}")
            if not isinstance(got, list):
                raise ValueError("the API answered with no list")
            found += got
            if len(got) < 100:
                break
        return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow no redirection."""


class GitHub(Forge):
    """Comments of the pull request of the event that started the job."""

    def __init__(self) -> None:
        super().__init__(os.environ["GITHUB_API_URL"], ("Authorization", f"Bearer {os.environ['GITHUB_TOKEN']}"))
        event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8"))
        self._issues = f"/repos/{quote(os.environ['GITHUB_REPOSITORY'])}/issues"
        self._comments = f"{self._issues}/{int(event['pull_request']['number'])}/comments"

    def comments(self) -> list[dict]:
        """Return the comments of the pull request."""
        return self.pages(self._comments)

    def is_own(self, comment: dict) -> bool:
        """Return whether a comment is of the account of this job: another one may carry the same marker."""
        return bool(comment["user"]["login"] == os.environ.get("COMMENT_AUTHOR", "github-actions[bot]"))

    def write(self, text: str, earlier: dict | None) -> None:
        """Write a comment, or over an earlier one."""
        if earlier:
            self.call("PATCH", f"{self._issues}/comments/{int(earlier['id'])}", {"body": text})
        else:
            self.call("POST", self._comments, {"body": text})


class GitLab(Forge):
    """Notes of the merge request of the pipeline. The job's own token may not write them: GITLAB_TOKEN has to."""

    def __init__(self) -> None:
        super().__init__(os.environ["CI_API_V4_URL"], ("PRIVATE-TOKEN", os.environ["GITLAB_TOKEN"]))
        project, request = int(os.environ["CI_PROJECT_ID"]), int(os.environ["CI_MERGE_REQUEST_IID"])
        self._notes = f"/projects/{project}/merge_requests/{request}/notes"
        me = self.call("GET", "/user")
        self._me = me["id"] if isinstance(me, dict) else None

    def comments(self) -> list[dict]:
        """Return the notes of the merge request."""
        return self.pages(self._notes)

    def is_own(self, comment: dict) -> bool:
        """Return whether a note is of the account of the token."""
        return bool(comment["author"]["id"] == self._me)

    def write(self, text: str, earlier: dict | None) -> None:
        """Write a note, or over an earlier one."""
        if earlier:
            self.call("PUT", f"{self._notes}/{int(earlier['id'])}", {"body": text})
        else:
            self.call("POST", self._notes, {"body": text})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
