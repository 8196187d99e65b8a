# SPDX-License-Identifier: BSD-3-Clause
"""perf's report of one rank, and what kind of work each symbol is."""

from __future__ import annotations

import re

# The kernel and its modules: [kernel.kallsyms], [veth], vmlinux.
KERNEL = r"^\[(?!vdso|vsyscall|unknown|heap|stack|anon)|vmlinux"
SEPARATOR = ";"

COPIES = "kernel: copies"
BUFFERS = "kernel: pages, buffers"
KERNEL_REST = "kernel: rest"
CRC = "user: CRC, copies"
DIWARP_REST = "diwarp: rest"
OPEN_MPI = "Open MPI"
REST = "rest"
KINDS = (COPIES, BUFFERS, KERNEL_REST, CRC, DIWARP_REST, OPEN_MPI, REST)

# (file, symbol, kind) as regular expressions; the first that fits decides. What a symbol does is told
# by its name: look at --symbols when a share surprises.
COPY_SYMBOLS = r"copy_(to|from)_(iter|user)|copy_user|rep_movs|copyin|copyout|memcpy"
BUFFER_SYMBOLS = r"alloc|free|slab|kmem|clear_page|get_page|folio|rmqueue|skb_release"
RULES = tuple((re.compile(file), re.compile(symbol), kind) for file, symbol, kind in (
    (KERNEL, COPY_SYMBOLS, COPIES),
    (KERNEL, BUFFER_SYMBOLS, BUFFERS),
    (KERNEL, r"", KERNEL_REST),
    (r"mca_btl_diwarp", r"_update|crc32c", CRC),
    (r"mca_btl_diwarp", r"", DIWARP_REST),
    (r"libc\.so", r"mem(cpy|move)", CRC),
    (r"libmpi|libopen-|mca_", r"", OPEN_MPI),
    (r"", r"", REST),
))

REPORT_OPTIONS = ("--no-children", "-g", "none", "--stdio", "-q", "-F", "overhead,dso,sym", "-t",
                  SEPARATOR)


class NotAReport(Exception):
    """What perf printed has no samples."""


def parse(report: str) -> list[tuple[float, str, str]]:
    """(per cent, file, symbol) of each line."""
    rows = []
    for line in report.splitlines():
        cells = [cell.strip() for cell in line.split(SEPARATOR)]
        if len(cells) == 3 and cells[0].endswith("%"):
            rows.append((float(cells[0][:-1]), cells[1], re.sub(r"^\[.\] ", "", cells[2])))
    if not rows:
        raise NotAReport(report.strip() or "no samples")
    return rows


def kind_of(file: str, symbol: str) -> str:
    return next(kind for f, s, kind in RULES if f.search(file) and s.search(symbol))


def shares(rows: list[tuple[float, str, str]]) -> dict[str, float]:
    """Per cent of the time by kind; the kinds have all of it."""
    total = sum(percent for percent, _, _ in rows)
    out = dict.fromkeys(KINDS, 0.0)
    for percent, file, symbol in rows:
        out[kind_of(file, symbol)] += 100 * percent / total
    return out
