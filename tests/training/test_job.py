"""Keys of a job: what is taken and what is refused."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from training.nodes import job


def test_defaults_are_those_of_the_launchers():
    made = job()
    assert (made.port, made.python, made.processes_per_node, made.done_when) == (29500, "python3", "gpu", "all")
    assert made.what == ("/shared/train.py",)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"args": ["{locl_rank}"]}, "no placeholder {locl_rank}"),
        ({"args": ["a\nb"]}, "one line"),
        ({"env": {"A-B": "1"}}, "no name of a variable"),
        ({"env": {"A": "{local_rank}"}}, "same for all processes"),
        ({"env": {"A": "{nodess}"}}, "no placeholder"),
        ({"script": "train.py"}, "no absolute path"),
        ({"script": "/a.py", "module": "a"}, "runs one thing"),
        ({"command": ["/a"], "args": ["b"]}, "those of a script"),
        ({"command": []}, "must not be empty"),
        ({"python": "python3; id"}, "no path of Python"),
        ({"training_job": "a/b"}, "no name of a job"),
        ({"torchrun": {"elastic": "4:2"}}, "no range of nodes"),
        ({"grace": 10}, "not a time"),
        ({"port": 22}, "1024"),
        ({"processes_per_node": 0}, "1"),
        ({"nodes": [{"name": "a", "address": "10.0.0.1"}] * 2}, "listed twice"),
        ({"nodes": [{"name": "a", "address": "-oProxyCommand=x"}]}, "no address"),
        ({"nodes": [{"name": "a", "address": "a", "interface": "e$(id)"}]}, "no name of an interface"),
        ({"epochs": 3}, "extra"),
    ],
)
def test_what_a_job_cannot_say(given, words):
    with pytest.raises(ValidationError, match=words.replace("{", r"\{").replace("}", r"\}")):
        job(**given)


def test_json_in_an_argument_is_no_placeholder():
    text = '{"train_batch_size": 8, "zero": {"stage": 3}}'
    assert job(args=[text, "{{x}}", 1e-4, 3]).what[1:] == (text, "{{x}}", "0.0001", "3")
