"""The 32 worked examples of admission: each is one test, `test_worked[NN]`, in the product's file and in the lab's.

`pytest -k worked tests/admission` counts those of the product, the same over `tests/lab` those of the lab. An example
may have several checks: all have to hold.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

EXAMPLES = range(1, 33)


class WorkedExamples:
    """Checks by the number of their example; those of no example, by a name, are `others`."""

    def __init__(self):
        self.checks, self.others = defaultdict(list), {}

    def __call__(self, *numbers):
        """Make a function a check of some examples."""

        def add(function):
            for number in numbers:
                self.checks[number].append(function)
            return function

        return add

    def rows(self, *rows):
        """Make a function the check of rows of arguments; the first of each is the example's number, or a name."""

        def add(function):
            for number, *arguments in rows:
                check = partial(function, *arguments)
                if isinstance(number, int):
                    self.checks[number].append(check)
                else:
                    self.others[number] = check
            return function

        return add
