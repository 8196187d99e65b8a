# SPDX-License-Identifier: BSD-3-Clause
"""What benchmarks/compare is made of, and benchmarks/apps in part.

Reading order: cli (options and the order of things), targets and measures (tables: what counts, and
what is run for it), transports (how mpirun is called), jobs and hosts (processes, two network
namespaces), schedule and session (rounds), figures, results and judge (numbers), report, markdown,
marked, provenance and plots (what is written).
"""
