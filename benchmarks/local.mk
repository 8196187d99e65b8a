# SPDX-License-Identifier: BSD-3-Clause
# Benchmark programs; none is installed.

EXTRA_DIST += benchmarks/README.md benchmarks/compare benchmarks/run_smg2000 benchmarks/lib.sh

if DW_COMPONENT

noinst_PROGRAMS += benchmarks/raw_udp benchmarks/latency_bandwidth

benchmarks_raw_udp_SOURCES = benchmarks/raw_udp.c benchmarks/samples.h
benchmarks_raw_udp_LDADD =

benchmarks_latency_bandwidth_SOURCES = benchmarks/latency_bandwidth.c benchmarks/samples.h
benchmarks_latency_bandwidth_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_latency_bandwidth_LDADD = $(MPI_LIBS)

if DW_HYPRE
noinst_PROGRAMS += benchmarks/smg2000
benchmarks_smg2000_SOURCES = benchmarks/smg2000.c benchmarks/smg_problem.c \
	benchmarks/smg_problem.h benchmarks/mpi_time.c benchmarks/mpi_time.h
benchmarks_smg2000_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS) $(HYPRE_CPPFLAGS)
# The timing layer must take the calls of HYPRE's shared library, too.
benchmarks_smg2000_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
benchmarks_smg2000_LDADD = $(HYPRE_LIBS) $(MPI_LIBS)
endif

endif
