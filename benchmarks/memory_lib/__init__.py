# SPDX-License-Identifier: BSD-3-Clause
"""What benchmarks/memory is made of, on top of compare_lib's processes and apps_lib's transports.

Reading order: cli (options and the order of things), points (what is run, and what a transport's
memory is), model (the line through the points), judge (the targets), report, markdown and plots
(what is written).
"""
