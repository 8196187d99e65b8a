# SPDX-License-Identifier: BSD-3-Clause
# Benchmark programs; none is installed.

EXTRA_DIST += benchmarks/README.md benchmarks/compare benchmarks/run_smg2000 benchmarks/lib.sh \
	benchmarks/compare_lib/__init__.py benchmarks/compare_lib/cli.py \
	benchmarks/compare_lib/command_line.py benchmarks/compare_lib/figures.py benchmarks/compare_lib/hosts.py \
	benchmarks/compare_lib/jobs.py benchmarks/compare_lib/judge.py \
	benchmarks/compare_lib/markdown.py benchmarks/compare_lib/measures.py \
	benchmarks/compare_lib/plots.py benchmarks/compare_lib/report.py \
	benchmarks/compare_lib/results.py benchmarks/compare_lib/schedule.py \
	benchmarks/compare_lib/session.py \
	benchmarks/compare_lib/stats.py benchmarks/compare_lib/targets.py \
	benchmarks/compare_lib/transports.py test/bench/run test/bench/test_compare.py

if DW_COMPONENT

noinst_PROGRAMS += benchmarks/raw_sockets benchmarks/latency_bandwidth benchmarks/one_sided \
	benchmarks/collectives benchmarks/overlap benchmarks/incast

benchmarks_raw_sockets_SOURCES = benchmarks/raw_sockets.c benchmarks/raw_link.c \
	benchmarks/raw_link.h benchmarks/raw_server.c benchmarks/raw_server.h \
	benchmarks/options.h benchmarks/samples.h
benchmarks_raw_sockets_LDADD =

benchmarks_latency_bandwidth_SOURCES = benchmarks/latency_bandwidth.c benchmarks/mpi_bench.h \
	benchmarks/options.h benchmarks/samples.h
benchmarks_latency_bandwidth_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_latency_bandwidth_LDADD = $(MPI_LIBS)

benchmarks_one_sided_SOURCES = benchmarks/one_sided.c benchmarks/mpi_bench.h benchmarks/options.h \
	benchmarks/samples.h
benchmarks_one_sided_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_one_sided_LDADD = $(MPI_LIBS)

benchmarks_collectives_SOURCES = benchmarks/collectives.c benchmarks/mpi_bench.h \
	benchmarks/options.h benchmarks/samples.h
benchmarks_collectives_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_collectives_LDADD = $(MPI_LIBS)

benchmarks_overlap_SOURCES = benchmarks/overlap.c benchmarks/mpi_bench.h benchmarks/options.h \
	benchmarks/samples.h
benchmarks_overlap_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_overlap_LDADD = $(MPI_LIBS)

benchmarks_incast_SOURCES = benchmarks/incast.c benchmarks/mpi_bench.h benchmarks/options.h \
	benchmarks/samples.h
benchmarks_incast_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_incast_LDADD = $(MPI_LIBS)

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
