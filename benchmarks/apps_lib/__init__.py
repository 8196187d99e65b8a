# SPDX-License-Identifier: BSD-3-Clause
"""What benchmarks/apps is made of, on top of compare_lib's processes, rounds and statistics.

Reading order: cli (options and the order of things), cases (what is run), programs (applications
and how they are called), transports, readings (what programs and tools print), agreement (whether
all runs gave the same), figures and results (numbers), session (the rounds), verify (the matrix of
--verify), judge (targets), report, markdown and plots (what is written).
"""
