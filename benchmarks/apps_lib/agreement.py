# SPDX-License-Identifier: BSD-3-Clause
"""Whether all runs of the same problem gave the same. Who merely converges may have had damaged
data on the way, which costs iterations."""

from __future__ import annotations

from . import readings
from .cases import Case
from .transports import TRANSPORTS


class FirstResults:
    """What the first good run of each problem gave. Nothing is summed in an order that depends on
    time, so all others must give it to the last digit, whatever they run over."""

    def __init__(self):
        # (application, class, ranks) -> (its result, what it ran over).
        self._first: dict[tuple[str, str, int], tuple[str, str]] = {}

    def check(self, case: Case, transport: str, result: str) -> None:
        """Raises readings.Unusable."""
        problem = (case.application, case.class_, case.ranks)
        first, over = self._first.setdefault(problem, (result, transport))
        if result != first:
            raise readings.Unusable(f"other result than over {TRANSPORTS[over].title}: "
                                    f"{result} instead of {first}")
