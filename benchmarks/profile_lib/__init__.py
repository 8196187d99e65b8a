# SPDX-License-Identifier: BSD-3-Clause
"""Where the time of each rank goes.

- cases.py    what is profiled: programs and transports
- samples.py  perf's report of one rank, and what kind of work each symbol is
- cli.py      the command line: runs, tables
"""
