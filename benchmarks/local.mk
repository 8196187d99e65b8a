# SPDX-License-Identifier: BSD-3-Clause
# Benchmark programs; none is installed.

EXTRA_DIST += benchmarks/memory benchmarks/memory_lib/__init__.py benchmarks/memory_lib/cli.py \
	benchmarks/memory_lib/judge.py benchmarks/memory_lib/markdown.py \
	benchmarks/memory_lib/model.py benchmarks/memory_lib/plots.py \
	benchmarks/memory_lib/points.py benchmarks/memory_lib/report.py test/bench/test_memory.py
EXTRA_DIST += benchmarks/verbs benchmarks/verbs_lib/__init__.py benchmarks/verbs_lib/cli.py \
	benchmarks/verbs_lib/group.py benchmarks/verbs_lib/group_network.py \
	benchmarks/verbs_lib/group_report.py \
	benchmarks/verbs_lib/network.py benchmarks/verbs_lib/plots.py \
	benchmarks/verbs_lib/report.py benchmarks/verbs_lib/series.py \
	benchmarks/verbs_lib/session.py test/bench/test_verbs.py test/bench/test_verbs_group.py
EXTRA_DIST += benchmarks/profile benchmarks/profile_lib/__init__.py \
	benchmarks/profile_lib/cases.py benchmarks/profile_lib/cli.py \
	benchmarks/profile_lib/samples.py test/bench/test_profile.py
EXTRA_DIST += benchmarks/apps benchmarks/apps_lib/__init__.py benchmarks/apps_lib/agreement.py \
	benchmarks/apps_lib/cases.py benchmarks/apps_lib/cli.py \
	benchmarks/apps_lib/figures.py benchmarks/apps_lib/judge.py \
	benchmarks/apps_lib/markdown.py benchmarks/apps_lib/plots.py \
	benchmarks/apps_lib/programs.py benchmarks/apps_lib/readings.py \
	benchmarks/apps_lib/report.py benchmarks/apps_lib/results.py \
	benchmarks/apps_lib/session.py benchmarks/apps_lib/transports.py \
	benchmarks/apps_lib/verify.py test/bench/apps_fixture.py \
	test/bench/test_apps_judge.py test/bench/test_apps_plan.py test/bench/test_apps_readings.py
# README.md shows them.
EXTRA_DIST += benchmarks/plots/known-peers.png benchmarks/plots/apps-communication.png benchmarks/plots/apps-runtime.png \
	benchmarks/plots/apps-memory-radix.png benchmarks/plots/apps-memory-smg2000.png \
	benchmarks/plots/bandwidth.png benchmarks/plots/latency.png benchmarks/plots/memory.png
EXTRA_DIST += benchmarks/plot_known_peers benchmarks/README.md benchmarks/RESULTS.md benchmarks/FINDINGS.md \
	benchmarks/compare benchmarks/run_smg2000 benchmarks/lib.sh \
	benchmarks/compare_lib/__init__.py benchmarks/compare_lib/cli.py \
	benchmarks/compare_lib/command_line.py \
	benchmarks/compare_lib/cores.py benchmarks/compare_lib/figures.py benchmarks/compare_lib/hosts.py \
	benchmarks/compare_lib/jobs.py benchmarks/compare_lib/judge.py \
	benchmarks/compare_lib/markdown.py benchmarks/compare_lib/marked.py \
	benchmarks/compare_lib/measures.py \
	benchmarks/compare_lib/plots.py benchmarks/compare_lib/provenance.py \
	benchmarks/compare_lib/report.py benchmarks/compare_lib/results.py benchmarks/compare_lib/schedule.py \
	benchmarks/compare_lib/session.py \
	benchmarks/compare_lib/stats.py benchmarks/compare_lib/targets.py \
	benchmarks/compare_lib/transports.py test/bench/run test/bench/test_compare.py \
	test/bench/test_compare_hosts.py test/bench/test_compare_written.py \
	test/bench/test_run_smg2000.py test/bench/test_targets.py test/bench/test_turns.py \
	test/bench/test_written.py

# What of LU does not need MPI.
LU_NUMERICS = benchmarks/npb/lu_field.c benchmarks/npb/lu_flux.c benchmarks/npb/lu_grid.c \
	benchmarks/npb/lu_jacobian.c benchmarks/npb/lu_residual.c benchmarks/npb/lu_surface.c \
	benchmarks/npb/lu_sweep.c benchmarks/npb/lu_verify.c benchmarks/npb/lu.h \
	benchmarks/npb/lu_constants.h

# What the two programs of the verbs benchmark share, and its unit test.
VERBS_BENCH = benchmarks/verbs_end.h benchmarks/verbs_measure.c benchmarks/verbs_measure.h \
	benchmarks/verbs_run.c benchmarks/verbs_serve.c benchmarks/raw_link.c benchmarks/raw_link.h \
	benchmarks/options.h benchmarks/samples.h

EXTRA_DIST += benchmarks/mpich benchmarks/mpich_lib.sh benchmarks/targets benchmarks/verbs_tail
EXTRA_DIST += benchmarks/auth benchmarks/cipher_speed.c benchmarks/loss benchmarks/rails

if DW_COMPONENT

if DW_LIBCRYPTO
noinst_PROGRAMS += benchmarks/cipher_speed
benchmarks_cipher_speed_SOURCES = benchmarks/cipher_speed.c benchmarks/samples.h
benchmarks_cipher_speed_LDADD = libdiwarp_core.la
endif

noinst_PROGRAMS += benchmarks/known_peers benchmarks/read_list benchmarks/raw_sockets \
	benchmarks/latency_bandwidth \
	benchmarks/one_sided \
	benchmarks/collectives benchmarks/overlap benchmarks/incast benchmarks/all_to_all

benchmarks_known_peers_SOURCES = benchmarks/known_peers.c benchmarks/loopback_node.h \
	benchmarks/samples.h
benchmarks_known_peers_LDADD = libdiwarp.la
benchmarks_read_list_SOURCES = benchmarks/read_list.c benchmarks/loopback_node.h \
	benchmarks/samples.h
benchmarks_read_list_LDADD = libdiwarp.la

benchmarks_raw_sockets_SOURCES = benchmarks/raw_sockets.c benchmarks/raw_client.c \
	benchmarks/raw_client.h benchmarks/raw_link.c benchmarks/raw_link.h \
	benchmarks/raw_message.c benchmarks/raw_message.h benchmarks/raw_server.c \
	benchmarks/raw_server.h \
	benchmarks/options.h benchmarks/samples.h benchmarks/turns.c benchmarks/turns.h
benchmarks_raw_sockets_LDADD = libdiwarp_core.la

noinst_PROGRAMS += benchmarks/verbs_native benchmarks/verbs_of
benchmarks_verbs_native_SOURCES = benchmarks/verbs_native.c benchmarks/verbs_native.h \
	benchmarks/verbs_native_rc.c $(VERBS_BENCH)
benchmarks_verbs_native_LDADD = libdiwarp.la -libverbs
benchmarks_verbs_of_SOURCES = benchmarks/verbs_of.c $(VERBS_BENCH)
benchmarks_verbs_of_LDADD = -libverbs

noinst_PROGRAMS += benchmarks/verbs_group
benchmarks_verbs_group_SOURCES = benchmarks/verbs_group.c benchmarks/verbs_group.h \
	benchmarks/verbs_group_receive.c benchmarks/verbs_group_send.c benchmarks/verbs_end.h \
	benchmarks/verbs_measure.h benchmarks/raw_link.c benchmarks/raw_link.h \
	benchmarks/options.h benchmarks/samples.h
benchmarks_verbs_group_LDADD = libdiwarp.la -libverbs

noinst_PROGRAMS += benchmarks/verbs_memory
benchmarks_verbs_memory_SOURCES = benchmarks/verbs_memory.c benchmarks/options.h \
	benchmarks/memory_sample.c benchmarks/memory_sample.h
benchmarks_verbs_memory_LDADD = libdiwarp_core.la -libverbs

benchmarks_latency_bandwidth_SOURCES = benchmarks/latency_bandwidth.c benchmarks/mpi_bench.h \
	benchmarks/options.h benchmarks/samples.h benchmarks/turns.c benchmarks/turns.h
benchmarks_latency_bandwidth_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_latency_bandwidth_LDADD = $(MPI_LIBS)

benchmarks_one_sided_SOURCES = benchmarks/one_sided.c benchmarks/mpi_bench.h benchmarks/options.h \
	benchmarks/samples.h benchmarks/turns.c benchmarks/turns.h
benchmarks_one_sided_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_one_sided_LDADD = $(MPI_LIBS)

benchmarks_collectives_SOURCES = benchmarks/collectives.c benchmarks/mpi_bench.h \
	benchmarks/options.h benchmarks/samples.h benchmarks/turns.c benchmarks/turns.h
benchmarks_collectives_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_collectives_LDADD = $(MPI_LIBS)

benchmarks_overlap_SOURCES = benchmarks/overlap.c benchmarks/mpi_bench.h benchmarks/options.h \
	benchmarks/samples.h
benchmarks_overlap_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_overlap_LDADD = $(MPI_LIBS)

benchmarks_all_to_all_SOURCES = benchmarks/all_to_all.c benchmarks/mpi_bench.h \
	benchmarks/options.h
benchmarks_all_to_all_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_all_to_all_LDADD = $(MPI_LIBS)

benchmarks_incast_SOURCES = benchmarks/incast.c benchmarks/mpi_bench.h benchmarks/options.h \
	benchmarks/samples.h
benchmarks_incast_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_incast_LDADD = $(MPI_LIBS)

# The NAS kernels.
NPB_COMMON = benchmarks/npb/npb_common.c benchmarks/npb/npb_common.h benchmarks/npb/npb_random.h
NPB_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS) -DNPB_VERSION='"diwarp $(PACKAGE_VERSION)"'
NPB_LIBS = $(MPI_LIBS) -lm
# For `#pragma omp simd'; nothing of OpenMP is linked.
NPB_CFLAGS = $(AM_CFLAGS) -fopenmp-simd

noinst_PROGRAMS += benchmarks/npb_cg
benchmarks_npb_cg_SOURCES = benchmarks/npb/cg.c benchmarks/npb/cg_grid.c benchmarks/npb/cg_grid.h \
	benchmarks/npb/cg_matrix.c benchmarks/npb/cg_matrix.h $(NPB_COMMON)
benchmarks_npb_cg_CPPFLAGS = $(NPB_CPPFLAGS)
benchmarks_npb_cg_CFLAGS = $(NPB_CFLAGS)
benchmarks_npb_cg_LDADD = $(NPB_LIBS)

noinst_PROGRAMS += benchmarks/npb_mg
benchmarks_npb_mg_SOURCES = benchmarks/npb/mg.c benchmarks/npb/mg_exchange.c \
	benchmarks/npb/mg_exchange.h benchmarks/npb/mg_grid.c benchmarks/npb/mg_grid.h \
	benchmarks/npb/mg_operators.c benchmarks/npb/mg_operators.h benchmarks/npb/mg_source.c \
	benchmarks/npb/mg_source.h $(NPB_COMMON)
benchmarks_npb_mg_CPPFLAGS = $(NPB_CPPFLAGS)
benchmarks_npb_mg_CFLAGS = $(NPB_CFLAGS)
benchmarks_npb_mg_LDADD = $(NPB_LIBS)

noinst_PROGRAMS += benchmarks/npb_lu
benchmarks_npb_lu_SOURCES = benchmarks/npb/lu.c benchmarks/npb/lu_exchange.c \
	benchmarks/npb/lu_exchange.h $(LU_NUMERICS) $(NPB_COMMON)
benchmarks_npb_lu_CPPFLAGS = $(NPB_CPPFLAGS)
benchmarks_npb_lu_LDADD = $(NPB_LIBS)

noinst_PROGRAMS += benchmarks/radix
benchmarks_radix_SOURCES = benchmarks/npb/radix.c benchmarks/npb/radix_digit.c \
	benchmarks/npb/radix_digit.h $(NPB_COMMON)
benchmarks_radix_CPPFLAGS = $(NPB_CPPFLAGS)
benchmarks_radix_LDADD = $(NPB_LIBS)

if DW_HYPRE
noinst_PROGRAMS += benchmarks/smg2000
benchmarks_smg2000_SOURCES = benchmarks/smg2000.c benchmarks/smg_problem.c \
	benchmarks/smg_problem.h $(MPI_TIME_SOURCES)
benchmarks_smg2000_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS) $(HYPRE_CPPFLAGS)
# The timing layer must take the calls of HYPRE's shared library, too.
benchmarks_smg2000_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
benchmarks_smg2000_LDADD = $(HYPRE_LIBS) $(MPI_LIBS) $(DW_SYSTEM_LIBS)
endif

# ---- tools to be preloaded ------------------------------------------------------------------------
# mpi_time.c serves linked into a program, too.
MPI_TIME_SOURCES = benchmarks/mpi_time.c benchmarks/mpi_time.h benchmarks/mpi_time_calls.h \
	benchmarks/mpi_time_requests.c benchmarks/mpi_time_requests.h
TOOL_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-export-symbols-regex '^P?MPI_[A-Z]' -Wl,-z,defs
# They are there when the program starts, and count in every call.
TOOL_CFLAGS = $(AM_CFLAGS) -ftls-model=initial-exec

pkglib_LTLIBRARIES += benchmarks/mpi_time.la benchmarks/mpi_memory.la

benchmarks_mpi_time_la_SOURCES = $(MPI_TIME_SOURCES) benchmarks/mpi_time_report.c \
	benchmarks/tool_output.c benchmarks/tool_output.h
benchmarks_mpi_time_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS) -DMPI_TIME_PRELOADED
benchmarks_mpi_time_la_CFLAGS = $(TOOL_CFLAGS)
benchmarks_mpi_time_la_LIBADD = $(MPI_LIBS) $(DW_SYSTEM_LIBS)
benchmarks_mpi_time_la_LDFLAGS = $(TOOL_LDFLAGS)

benchmarks_mpi_memory_la_SOURCES = benchmarks/mpi_memory.c benchmarks/memory_sample.c \
	benchmarks/memory_sample.h benchmarks/tool_output.c benchmarks/tool_output.h \
	common/llp/socket.c common/llp/socket.h
benchmarks_mpi_memory_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
benchmarks_mpi_memory_la_CFLAGS = $(TOOL_CFLAGS)
benchmarks_mpi_memory_la_LIBADD = $(MPI_LIBS) $(DW_SYSTEM_LIBS)
benchmarks_mpi_memory_la_LDFLAGS = $(TOOL_LDFLAGS)

BUILT += tools/mpi_time.so tools/mpi_memory.so

tools/mpi_time.so: benchmarks/mpi_time.la
	@$(MKDIR_P) tools
	$(AM_V_GEN)cp benchmarks/.libs/mpi_time.so $@.tmp && mv -f $@.tmp $@

tools/mpi_memory.so: benchmarks/mpi_memory.la
	@$(MKDIR_P) tools
	$(AM_V_GEN)cp benchmarks/.libs/mpi_memory.so $@.tmp && mv -f $@.tmp $@

endif
