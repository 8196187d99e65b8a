# SPDX-License-Identifier: BSD-3-Clause
"""The tables on the terminal."""

from __future__ import annotations

from compare_lib.report import table
from compare_lib.stats import Summary

from .cases import MEMORY as FOR_MEMORY, TIME, Case
from .figures import COMMUNICATION, MEMORY, QUANTITIES, RUNTIME, TRANSPORT
from .programs import APPLICATIONS
from .results import Results
from .transports import AGAINST, RD, TRANSPORTS

FAILED, NOTHING = "FAILED", "-"


def by_application(cases: list[Case]) -> list[Case]:
    order = list(APPLICATIONS)
    return sorted(cases, key=lambda case: order.index(case.application))


def sections(results: Results) -> list[tuple[str, str, list[Case]]]:
    """(quantity, what stands above its table, cases), each table that has something to show."""
    timed = by_application([case for case in results.cases() if case.purpose == TIME])
    watched = by_application([case for case in results.cases() if case.purpose == FOR_MEMORY])
    memory = "private, and what the kernel holds for its sockets"
    all_sections = [
        (RUNTIME, "the timed part of the program", timed),
        (COMMUNICATION, "inside MPI calls, mean of the ranks, whole program", timed),
        (MEMORY, f"{memory}, at the end, mean of the ranks", timed),
        (MEMORY, f"{memory}, at most, mean of the ranks; more ranks than cores", watched),
        (TRANSPORT, "what diwarp itself asked of malloc", timed + watched),
    ]
    return [(quantity, text, cases) for quantity, text, cases in all_sections
            if any(results.of(quantity, case, name) for case in cases for name in TRANSPORTS)]


def value_text(results: Results, quantity: str, case: Case, transport: str,
               spread: bool = True) -> str:
    if (case, transport) in results.failed:
        return FAILED
    summary = results.of(quantity, case, transport)
    if not summary:
        return NOTHING
    text = QUANTITIES[quantity].text(summary.median)
    return f"{text} ({100 * summary.spread:.0f} %)" if spread and summary.count > 1 else text


def saving(ratio: Summary) -> Summary:
    """Per cent by which rd is better, of rd ÷ other."""
    return Summary(100 * (1 - ratio.median), 100 * (1 - ratio.high), 100 * (1 - ratio.low),
                   ratio.count)


def saving_text(results: Results, quantity: str, case: Case, other: str) -> str:
    ratio = results.rd_over(quantity, case, other)
    return f"{saving(ratio).median:+.0f} %" if ratio else NOTHING


def compared(transports: list[str]) -> list[str]:
    return [name for name in AGAINST if name in transports and RD in transports]


def has_failed(results: Results, transport: str) -> bool:
    return any(name == transport for _, name in results.failed)


def quantity_table(results: Results, quantity: str, cases: list[Case]) -> list[list[str]]:
    """With a header. Values of each transport with their spread, then what rd saves against the
    others."""
    transports = [t for t in results.transports(cases)
                  if any(results.of(quantity, case, t) for case in cases) or has_failed(results, t)]
    others = compared(transports)
    rows = [[QUANTITIES[quantity].title_and_unit] + [TRANSPORTS[t].title for t in transports]
            + [f"RD saves, of {TRANSPORTS[t].title}" for t in others]]
    for case in cases:
        rows.append([case.title]
                    + [value_text(results, quantity, case, t) for t in transports]
                    + [saving_text(results, quantity, case, t) for t in others])
    return rows


def tables(results: Results) -> str:
    return "\n\n".join(f"{text}\n{table(quantity_table(results, quantity, cases))}"
                       for quantity, text, cases in sections(results))


def failures(failed: dict[tuple[Case, str], str]) -> str:
    return "\n".join(f"FAILED: {case.title} over {TRANSPORTS[name].title}: {why}"
                     for (case, name), why in failed.items())
