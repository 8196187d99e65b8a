# SPDX-License-Identifier: BSD-3-Clause
# Tests: `make check' runs the unit and simulator tests; MPI, application, network and fuzz tests
# have targets of their own (see Makefile.am).

# Of programs that say nothing else: unit tests and fuzz targets.
LDADD = $(CORE_LIBS) $(CMOCKA_LIBS)

# The LLP that loses datagrams on purpose, instead of the product's.
noinst_LTLIBRARIES += libdiwarp_fault.la
libdiwarp_fault_la_SOURCES = test/fault/llp_fault.c test/fault/llp_fault.h

noinst_HEADERS += \
	test/mpi/mpi_payload.h \
	test/mpi/mpi_test.h \
	test/mpi/mpi_tool.h \
	test/mpi/ulfm.h \
	test/net/bottleneck.h \
	test/net/clock.h \
	test/net/pcap.h \
	test/net/rc_record.h \
	test/net/rc_traffic.h \
	test/net/tap.h \
	test/net/tcp_pcap.h \
	test/fuzz/input.h \
	test/fuzz/memory_llp.h \
	test/net/failing_libc.h \
	test/net/refusing_libc.h \
	test/net/forge.h \
	test/net/forged_pair.h \
	test/net/group_members.h \
	test/net/node.h \
	test/net/rc_end.h \
	test/net/queue_pairs.h \
	test/net/rd_pair.h \
	test/net/starving_ends.h \
	test/net/ud_read_pair.h \
	test/sim/sim_attack.h \
	test/sim/sim_fixture.h \
	test/sim/sim_net.h \
	test/sim/sim_rd.h \
	test/sim/sim_ud.h \
	test/sim/sim_world.h \
	test/unit/fake_streams.h \
	test/unit/mpa_model.h \
	test/unit/random.h \
	test/unit/rc_forged.h \
	test/unit/rc_segments.h \
	test/unit/mpa_bounds.h \
	test/unit/terminate.h \
	test/unit/sendwin_fixture.h \
	test/unit/udp_fixture.h \
	test/unit/udp_kernel.h \
	test/vectors/vectors.h
EXTRA_DIST += \
	test/fuzz/corpus \
	test/fuzz/corpora/address \
	test/fuzz/corpora/cm \
	test/fuzz/corpora/ddp \
	test/fuzz/corpora/llp_header \
	test/fuzz/corpora/mpa \
	test/fuzz/corpora/ranges \
	test/fuzz/corpora/rc_receive \
	test/fuzz/corpora/rc_startup \
	test/fuzz/corpora/rdmap \
	test/fuzz/corpora/receive \
	test/fuzz/corpora/sealed \
	test/fuzz/corpora/terminate \
	test/fuzz/seeds/mpa/framed_markers \
	test/fuzz/seeds/mpa/reply_markers \
	test/fuzz/seeds/mpa/reply_reject \
	test/fuzz/seeds/mpa/request \
	test/fuzz/seeds/mpa/request_no_crc \
	test/fuzz/seeds/rc_startup/called \
	test/fuzz/seeds/rc_startup/called_by_stranger \
	test/fuzz/seeds/rc_startup/calling \
	test/fuzz/seeds/receive/get_doomed \
	test/fuzz/seeds/receive/intro_ipv6 \
	test/fuzz/seeds/receive/put_opened \
	test/fuzz/seeds/receive/read_gap \
	test/fuzz/seeds/receive/read_gone_qpn \
	test/fuzz/seeds/receive/read_held \
	test/fuzz/seeds/receive/read_placed \
	test/fuzz/seeds/receive/read_fused \
	test/fuzz/seeds/receive/ud_record \
	test/fuzz/seeds/receive/ud_send \
	test/fuzz/seeds/receive/write_large \
	test/fuzz/seeds/sealed/raw \
	test/fuzz/seeds/sealed/rd_read \
	test/fuzz/seeds/sealed/rd_send_again \
	test/fuzz/seeds/sealed/rd_stranger_intro \
	test/fuzz/seeds/sealed/rd_write \
	test/fuzz/seeds/sealed/ud_write \
	test/fuzz/seeds/terminate/bad_version \
	test/fuzz/seeds/terminate/ddp_stag \
	test/fuzz/seeds/terminate/mpa_crc \
	test/fuzz/seeds/terminate/read_bounds \
	test/fuzz/seeds/terminate/read_request \
	test/fuzz/seeds/terminate/send_invalidate \
	test/fuzz/seeds/terminate/write \
	test/apps/run \
	test/cbmc/README.md \
	test/cbmc/any.h \
	test/cbmc/rel_ranges.c \
	test/cbmc/rel_windows.c \
	test/cbmc/run \
	test/cbmc/wire_datagram.c \
	test/cbmc/wire_mpa.c \
	test/cbmc/wire_rdmap.c \
	test/fault/README.md \
	test/model/README.md \
	test/model/identity.pml \
	test/model/path.pml \
	test/model/record.pml \
	test/model/run \
	test/model/window.pml \
	test/mpi/README.md \
	test/mpi/errors \
	test/mpi/run \
	test/net/README.md \
	test/net/bad_links \
	test/net/bad_networks \
	test/net/between_hosts.sh \
	test/net/hosts.sh \
	test/net/ping \
	test/net/FAULTS.md \
	test/net/fault_cases.sh \
	test/net/fault_hosts.sh \
	test/net/faults \
	test/net/groups \
	test/net/hostile_cases.sh \
	test/net/neighbour \
	test/net/rc_wire \
	test/net/two_hosts \
	test/net/wireshark \
	test/npb/run \
	test/sim/README.md \
	test/tools/damage.c \
	test/tools/other_tool.c \
	test/tools/run \
	test/tools/traffic.f90 \
	test/vectors/atomic_request_cmp_swap.hex \
	test/vectors/atomic_request_fetch_add.hex \
	test/vectors/atomic_response.hex \
	test/vectors/datagram_ack.hex \
	test/vectors/datagram_ack_refusing.hex \
	test/vectors/datagram_data_goes_on.hex \
	test/vectors/datagram_data_intro_coalesced.hex \
	test/vectors/datagram_probe.hex \
	test/vectors/datagram_probe_reply_no_crc.hex \
	test/vectors/datagram_record.hex \
	test/vectors/datagram_ud_send.hex \
	test/vectors/fpdu_empty.hex \
	test/vectors/fpdu_marker_before_crc.hex \
	test/vectors/fpdu_marker_leads.hex \
	test/vectors/fpdu_marker_within.hex \
	test/vectors/fpdu_no_crc.hex \
	test/vectors/fpdu_send.hex \
	test/vectors/intro_ipv6.hex \
	test/vectors/mpa_reply_enhanced.hex \
	test/vectors/mpa_reply_reject.hex \
	test/vectors/mpa_request.hex \
	test/vectors/read_request.hex \
	test/vectors/read_request_stream.hex \
	test/vectors/record_abort.hex \
	test/vectors/record_complete.hex \
	test/vectors/record_open.hex \
	test/vectors/record_status.hex \
	test/vectors/sealed_data_gmac.hex \
	test/vectors/sealed_record_aes_gcm.hex \
	test/vectors/sealed_reset_source_key.hex \
	test/vectors/sealed_ud_gmac.hex \
	test/vectors/terminate_ddp_stag.hex \
	test/vectors/terminate_mpa_crc.hex \
	test/vectors/terminate_read_bounds.hex \
	test/vectors/write_record.hex

# The simulator: random scenarios by seed, and directed ones.
SIM_SOURCES = test/sim/sim_net.c test/sim/sim_world.c
check_PROGRAMS += test/sim/sim_random
TESTS += test/sim/sim_random
test_sim_sim_random_SOURCES = $(SIM_SOURCES) test/sim/sim_attack.c test/sim/sim_random.c \
	test/sim/sim_rd.c \
	test/sim/sim_rd_judge.c test/sim/sim_rd_plan.c test/sim/sim_ud.c
test_sim_sim_random_LDADD = $(CORE_LIBS)

# ---- unit tests: one program for each module -----------------------------------------------------

if DW_CMOCKA

UNIT_TESTS = \
	test/unit/test_address \
	test/unit/test_auth \
	test/unit/test_bottleneck \
	test/unit/test_cells \
	test/unit/test_copy \
	test/unit/test_cq \
	test/unit/test_crc32c \
	test/unit/test_crypto \
	test/unit/test_ddp \
	test/unit/test_delay \
	test/unit/test_device \
	test/unit/test_fault_plan \
	test/unit/test_heap \
	test/unit/test_host_id \
	test/unit/test_interface \
	test/unit/test_intro \
	test/unit/test_list \
	test/unit/test_llp_fault \
	test/unit/test_llp_header \
	test/unit/test_lu_fields \
	test/unit/test_lu_flow \
	test/unit/test_map \
	test/unit/test_mpa \
	test/unit/test_mpa_fpdu \
	test/unit/test_mpa_gather \
	test/unit/test_mr \
	test/unit/test_npb \
	test/unit/test_path \
	test/unit/test_peer_memory \
	test/unit/test_ranges \
	test/unit/test_rc_hello \
	test/unit/test_rc_protocol \
	test/unit/test_rc_protocol_reads \
	test/unit/test_rc_protocol_sends \
	test/unit/test_rc_protocol_setup \
	test/unit/test_rc_stream \
	test/unit/test_rdmap \
	test/unit/test_record \
	test/unit/test_record_lossy \
	test/unit/test_recordwin \
	test/unit/test_recvwin \
	test/unit/test_replay \
	test/unit/test_ring \
	test/unit/test_rtt \
	test/unit/test_seen \
	test/unit/test_sendwin \
	test/unit/test_sendwin_cwnd \
	test/unit/test_sendwin_lossy \
	test/unit/test_serial \
	test/unit/test_siphash \
	test/unit/test_slab \
	test/unit/test_stripes \
	test/unit/test_terminate \
	test/unit/test_tcp \
	test/unit/test_truesize \
	test/unit/test_turns \
	test/unit/test_ud_sources \
	test/unit/test_udp \
	test/unit/test_udp_kernel \
	test/unit/test_udp_open \
	test/unit/test_verbs_bench \
	test/unit/test_ways
check_PROGRAMS += $(UNIT_TESTS)
TESTS += $(UNIT_TESTS)
# Those that read test/vectors.
VECTOR_TESTS = \
	test/unit/test_auth \
	test/unit/test_ddp \
	test/unit/test_intro \
	test/unit/test_llp_header \
	test/unit/test_mpa \
	test/unit/test_rdmap \
	test/unit/test_terminate

# The RNIC as a whole: in the simulator, and on the sockets of the loopback interface.
RNIC_TESTS = \
	test/net/test_allocations \
	test/net/test_bad_input \
	test/net/test_bad_peer \
	test/net/test_greedy_peer \
	test/net/test_group_records \
	test/net/test_groups \
	test/net/test_guesses \
	test/net/test_helper \
	test/net/test_identity \
	test/net/test_iova \
	test/net/test_loopback \
	test/net/test_loopback_posts \
	test/net/test_loopback_threads \
	test/net/test_loopback_ud \
	test/net/test_memory \
	test/net/test_queue_pairs \
	test/net/test_queue_pairs_end \
	test/net/test_rc_connections \
	test/net/test_rc_loopback \
	test/net/test_rc_operations \
	test/net/test_rc_waits \
	test/net/test_sealed \
	test/net/test_sleep \
	test/net/test_ud_reads \
	test/net/test_ud_reads_forged \
	test/sim/test_sim_bounds \
	test/sim/test_sim_directed \
	test/sim/test_sim_forget \
	test/sim/test_sim_grants \
	test/sim/test_sim_immediate \
	test/sim/test_sim_many \
	test/sim/test_sim_memory \
	test/sim/test_sim_pace \
	test/sim/test_sim_path \
	test/sim/test_sim_peers \
	test/sim/test_sim_qps \
	test/sim/test_sim_recv_room \
	test/sim/test_sim_refusals \
	test/sim/test_sim_rest \
	test/sim/test_sim_room \
	test/sim/test_sim_route \
	test/sim/test_sim_sends \
	test/sim/test_sim_shares \
	test/sim/test_sim_ud \
	test/sim/test_sim_ud_lazy \
	test/sim/test_sim_ud_reads \
	test/sim/test_sim_ways
test_net_test_allocations_SOURCES = test/net/test_allocations.c test/net/failing_libc.c \
	test/net/starving_ends.c
test_sim_test_sim_bounds_SOURCES = $(SIM_SOURCES) test/sim/test_sim_bounds.c
test_sim_test_sim_directed_SOURCES = $(SIM_SOURCES) test/sim/test_sim_directed.c
test_sim_test_sim_forget_SOURCES = $(SIM_SOURCES) test/sim/test_sim_forget.c
test_sim_test_sim_grants_SOURCES = $(SIM_SOURCES) test/sim/test_sim_grants.c
test_sim_test_sim_immediate_SOURCES = $(SIM_SOURCES) test/sim/test_sim_immediate.c
test_sim_test_sim_many_SOURCES = $(SIM_SOURCES) test/sim/test_sim_many.c
test_sim_test_sim_memory_SOURCES = $(SIM_SOURCES) test/sim/test_sim_memory.c
test_sim_test_sim_pace_SOURCES = $(SIM_SOURCES) test/sim/test_sim_pace.c
test_sim_test_sim_path_SOURCES = $(SIM_SOURCES) test/sim/test_sim_path.c
test_sim_test_sim_peers_SOURCES = $(SIM_SOURCES) test/sim/test_sim_peers.c
test_sim_test_sim_qps_SOURCES = $(SIM_SOURCES) test/sim/test_sim_qps.c
test_sim_test_sim_recv_room_SOURCES = $(SIM_SOURCES) test/sim/test_sim_recv_room.c
test_sim_test_sim_refusals_SOURCES = $(SIM_SOURCES) test/sim/test_sim_refusals.c
test_sim_test_sim_rest_SOURCES = $(SIM_SOURCES) test/sim/test_sim_rest.c
test_sim_test_sim_room_SOURCES = $(SIM_SOURCES) test/sim/test_sim_room.c
test_sim_test_sim_route_SOURCES = $(SIM_SOURCES) test/sim/test_sim_route.c
test_sim_test_sim_sends_SOURCES = $(SIM_SOURCES) test/sim/test_sim_sends.c
test_sim_test_sim_shares_SOURCES = $(SIM_SOURCES) test/sim/test_sim_shares.c
test_sim_test_sim_ud_SOURCES = $(SIM_SOURCES) test/sim/test_sim_ud.c
test_sim_test_sim_ud_lazy_SOURCES = $(SIM_SOURCES) test/sim/test_sim_ud_lazy.c
test_sim_test_sim_ud_reads_SOURCES = $(SIM_SOURCES) test/sim/test_sim_ud_reads.c
test_sim_test_sim_ways_SOURCES = $(SIM_SOURCES) test/sim/test_sim_ways.c
check_PROGRAMS += $(RNIC_TESTS)
TESTS += $(RNIC_TESTS)

test_unit_test_bottleneck_SOURCES = test/unit/test_bottleneck.c test/net/bottleneck.c
test_unit_test_bottleneck_LDADD = $(CMOCKA_LIBS) -lm
test_unit_test_lu_fields_SOURCES = test/unit/test_lu_fields.c $(LU_NUMERICS)
test_unit_test_lu_flow_SOURCES = test/unit/test_lu_flow.c $(LU_NUMERICS)
test_unit_test_turns_SOURCES = test/unit/test_turns.c benchmarks/turns.c benchmarks/turns.h
test_unit_test_verbs_bench_SOURCES = test/unit/test_verbs_bench.c $(VERBS_BENCH)
test_unit_test_npb_SOURCES = test/unit/test_npb.c benchmarks/npb/radix_digit.c
test_unit_test_rc_protocol_SOURCES = test/unit/test_rc_protocol.c test/unit/fake_streams.c
test_unit_test_rc_protocol_reads_SOURCES = test/unit/test_rc_protocol_reads.c \
	test/unit/fake_streams.c
test_unit_test_rc_protocol_sends_SOURCES = test/unit/test_rc_protocol_sends.c \
	test/unit/fake_streams.c
test_unit_test_rc_protocol_setup_SOURCES = test/unit/test_rc_protocol_setup.c \
	test/unit/fake_streams.c
test_unit_test_rc_stream_SOURCES = test/unit/test_rc_stream.c test/unit/fake_streams.c
test_unit_test_udp_kernel_SOURCES = test/unit/test_udp_kernel.c test/unit/udp_kernel.c

test_unit_test_peer_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=posix_memalign,--wrap=malloc \
	-Wl,--wrap=calloc,--wrap=realloc,--wrap=free,--wrap=pthread_mutex_lock
test_unit_test_tcp_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=epoll_ctl
test_unit_test_rc_protocol_sends_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc
test_sim_test_sim_memory_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=realloc \
	-Wl,--wrap=dw_pages_map
# All that gives memory or a descriptor, and what takes memory back.
FAILING_WRAPS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign,--wrap=free \
	-Wl,--wrap=mmap,--wrap=munmap,--wrap=fopen,--wrap=getifaddrs,--wrap=socket,--wrap=eventfd \
	-Wl,--wrap=epoll_create1,--wrap=epoll_ctl,--wrap=pthread_create
test_net_test_allocations_LDFLAGS = $(AM_LDFLAGS) $(FAILING_WRAPS)
test_net_test_allocations_LDADD = libdiwarp_fault.la libdiwarp_core.la $(CMOCKA_LIBS)
test_unit_test_fault_plan_LDADD = libdiwarp_fault.la libdiwarp_core.la $(CMOCKA_LIBS)
test_unit_test_llp_fault_LDADD = libdiwarp_fault.la libdiwarp_core.la $(CMOCKA_LIBS)

endif

# Programs of libibverbs: run by test/verbs/run, with the front before it.
VERBS_TESTS = \
	test/verbs/test_front_allocations \
	test/verbs/test_front_buf \
	test/verbs/test_front_channels \
	test/verbs/test_front_cm \
	test/verbs/test_front_cm_end \
	test/verbs/test_front_cm_ids \
	test/verbs/test_front_cq_ex \
	test/verbs/test_front_dm \
	test/verbs/test_front_elements \
	test/verbs/test_front_events \
	test/verbs/test_front_exit \
	test/verbs/test_front_extension \
	test/verbs/test_front_foreign \
	test/verbs/test_front_gids \
	test/verbs/test_front_iova \
	test/verbs/test_front_mcast \
	test/verbs/test_front_memory \
	test/verbs/test_front_messages \
	test/verbs/test_front_mw \
	test/verbs/test_front_objects \
	test/verbs/test_front_opened \
	test/verbs/test_front_rc \
	test/verbs/test_front_rc_errors \
	test/verbs/test_front_rd \
	test/verbs/test_front_rd_srq \
	test/verbs/test_front_rd_told \
	test/verbs/test_front_rereg \
	test/verbs/test_front_sqd \
	test/verbs/test_front_srq \
	test/verbs/test_front_threads \
	test/verbs/test_front_uc
EXTRA_DIST += test/verbs/pyverbs test/verbs/names.sh test/verbs/pyverbs_skips test/verbs/relay test/verbs/run $(VERBS_TESTS:=.c) test/verbs/end.c test/verbs/end.h \
	test/verbs/cm_ends.c test/verbs/cm_ends.h test/verbs/rc_pair.c test/verbs/rc_pair.h test/verbs/sides.c test/verbs/sides.h \
	test/verbs/stub_ibverbs.c test/verbs/stub_ibverbs.h test/verbs/stub_ibverbs.map
if DW_SHARED
if DW_CMOCKA
check_PROGRAMS += $(VERBS_TESTS) test/verbs/extension_traffic
test_verbs_extension_traffic_LDADD = -libverbs
test_verbs_test_front_channels_SOURCES = test/verbs/test_front_channels.c test/verbs/cm_ends.c \
	test/verbs/end.c
# Its eventfd_read() is the front's.
test_verbs_test_front_channels_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_verbs_test_front_channels_LDADD = -lrdmacm -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_cm_SOURCES = test/verbs/test_front_cm.c test/verbs/cm_ends.c test/verbs/end.c \
	verbs_diwarp/cm_wire.c
test_verbs_test_front_cm_LDADD = -lrdmacm -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_cm_end_SOURCES = test/verbs/test_front_cm_end.c test/verbs/cm_ends.c test/verbs/end.c
test_verbs_test_front_cm_end_LDADD = -lrdmacm -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_cm_ids_SOURCES = test/verbs/test_front_cm_ids.c test/verbs/cm_ends.c test/verbs/end.c
test_verbs_test_front_cm_ids_LDADD = -lrdmacm -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_cq_ex_SOURCES = test/verbs/test_front_cq_ex.c test/verbs/end.c
test_verbs_test_front_cq_ex_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_rereg_SOURCES = test/verbs/test_front_rereg.c test/verbs/rc_pair.c \
	test/verbs/end.c
test_verbs_test_front_rereg_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_mw_SOURCES = test/verbs/test_front_mw.c test/verbs/rc_pair.c \
	test/verbs/end.c
test_verbs_test_front_mw_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_allocations_SOURCES = test/verbs/test_front_allocations.c test/verbs/end.c \
	test/net/refusing_libc.c
test_verbs_test_front_allocations_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_verbs_test_front_allocations_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_buf_SOURCES = test/verbs/test_front_buf.c test/verbs/rc_pair.c \
	test/verbs/end.c
test_verbs_test_front_buf_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_dm_SOURCES = test/verbs/test_front_dm.c test/verbs/rc_pair.c \
	test/verbs/end.c
test_verbs_test_front_dm_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_iova_SOURCES = test/verbs/test_front_iova.c test/verbs/rc_pair.c \
	test/verbs/end.c
test_verbs_test_front_iova_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_srq_SOURCES = test/verbs/test_front_srq.c test/verbs/rc_pair.c \
	test/verbs/end.c
test_verbs_test_front_srq_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_events_SOURCES = test/verbs/test_front_events.c test/verbs/end.c
test_verbs_test_front_events_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_exit_SOURCES = test/verbs/test_front_exit.c test/verbs/rc_pair.c \
	test/verbs/end.c
test_verbs_test_front_exit_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_extension_SOURCES = test/verbs/test_front_extension.c test/verbs/sides.c \
	test/verbs/end.c
test_verbs_test_front_extension_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_foreign_SOURCES = test/verbs/test_front_foreign.c test/verbs/end.c
test_verbs_test_front_foreign_LDADD = -libverbs $(CMOCKA_LIBS)
# With it, in the place of libibverbs. An rpath has libtool make a shared object of it.
check_LTLIBRARIES = test/verbs/stub/libibverbs.la
test_verbs_stub_libibverbs_la_SOURCES = test/verbs/stub_ibverbs.c
test_verbs_stub_libibverbs_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
test_verbs_stub_libibverbs_la_LDFLAGS = $(AM_LDFLAGS) -rpath $(abs_top_builddir)/test/verbs/stub -shared -version-info 1 \
	-Wl,--version-script=$(srcdir)/test/verbs/stub_ibverbs.map
EXTRA_test_verbs_stub_libibverbs_la_DEPENDENCIES = test/verbs/stub_ibverbs.map
test_verbs_test_front_gids_SOURCES = test/verbs/test_front_gids.c test/verbs/rc_pair.c \
	test/verbs/end.c
test_verbs_test_front_gids_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_mcast_SOURCES = test/verbs/test_front_mcast.c test/verbs/end.c
test_verbs_test_front_mcast_LDADD = -lrdmacm -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_memory_SOURCES = test/verbs/test_front_memory.c test/verbs/end.c
test_verbs_test_front_memory_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_messages_SOURCES = test/verbs/test_front_messages.c test/verbs/end.c
test_verbs_test_front_messages_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_objects_SOURCES = test/verbs/test_front_objects.c test/verbs/end.c
test_verbs_test_front_objects_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_opened_LDADD = $(CMOCKA_LIBS)
test_verbs_test_front_rc_SOURCES = test/verbs/test_front_rc.c test/verbs/rc_pair.c test/verbs/end.c
test_verbs_test_front_rc_errors_SOURCES = test/verbs/test_front_rc_errors.c test/verbs/rc_pair.c \
	test/verbs/end.c
test_verbs_test_front_rc_errors_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_rc_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_uc_SOURCES = test/verbs/test_front_uc.c test/verbs/rc_pair.c test/verbs/end.c
test_verbs_test_front_uc_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_elements_SOURCES = test/verbs/test_front_elements.c test/verbs/rc_pair.c test/verbs/sides.c \
	test/verbs/end.c
test_verbs_test_front_elements_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_rd_SOURCES = test/verbs/test_front_rd.c test/verbs/sides.c test/verbs/end.c
test_verbs_test_front_rd_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_rd_srq_SOURCES = test/verbs/test_front_rd_srq.c test/verbs/sides.c test/verbs/end.c
test_verbs_test_front_rd_srq_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_rd_told_SOURCES = test/verbs/test_front_rd_told.c test/verbs/sides.c test/verbs/end.c
test_verbs_test_front_rd_told_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_sqd_SOURCES = test/verbs/test_front_sqd.c test/verbs/rc_pair.c test/verbs/sides.c \
	test/verbs/end.c
test_verbs_test_front_sqd_LDADD = -libverbs $(CMOCKA_LIBS)
test_verbs_test_front_threads_SOURCES = test/verbs/test_front_threads.c test/verbs/end.c
test_verbs_test_front_threads_LDADD = -libverbs $(CMOCKA_LIBS)
endif
endif

# A link with a queue, AQM and faults between two network namespaces.
check_PROGRAMS += test/net/forwarder
test_net_forwarder_SOURCES = test/net/forwarder.c test/net/bottleneck.c
test_net_forwarder_LDADD = -lm

# TCP and echo requests beside diwarp: run by test/net/neighbour.
check_PROGRAMS += test/net/neighbour_flow
test_net_neighbour_flow_SOURCES = test/net/neighbour_flow.c

# A stranger on the network: run by test/net/faults.
check_PROGRAMS += test/net/hostile
test_net_hostile_SOURCES = test/net/hostile.c
test_net_hostile_LDADD = $(CORE_LIBS)

# Real RC traffic, captured for tshark to read: run by test/net/rc_wire.
check_PROGRAMS += test/net/group_end
test_net_group_end_SOURCES = test/net/group_end.c

check_PROGRAMS += test/net/rc_wire_check
test_net_rc_wire_check_SOURCES = test/net/rc_wire_check.c test/net/rc_record.c test/net/tap.c \
	test/net/tcp_pcap.c
test_net_rc_wire_check_LDADD = $(CORE_LIBS)

# ---- MPI tests and the component with the fault injector --------------------------------------

if DW_COMPONENT

# The same objects as the product's, but for the LLP that is opened: one that wraps it.
noinst_LTLIBRARIES += test/fault/mca_btl_diwarp.la
test_fault_mca_btl_diwarp_la_SOURCES =
test_fault_mca_btl_diwarp_la_LIBADD = libdiwarp_fault.la $(COMPONENT_LIBS)
# libtool makes a shared object of a library that is not installed only when given an rpath.
test_fault_mca_btl_diwarp_la_LDFLAGS = $(COMPONENT_LDFLAGS) -rpath $(abs_top_builddir)/component-fault

BUILT += component-fault/mca_btl_diwarp.so component-fault/help-mpi-btl-diwarp.txt

component-fault/mca_btl_diwarp.so: test/fault/mca_btl_diwarp.la
	@$(MKDIR_P) component-fault
	$(AM_V_GEN)cp test/fault/.libs/mca_btl_diwarp.so $@.tmp && mv -f $@.tmp $@

component-fault/help-mpi-btl-diwarp.txt: $(BTL_HELP)
	@$(MKDIR_P) component-fault
	$(AM_V_GEN)cp $(top_srcdir)/$(BTL_HELP) $@.tmp && mv -f $@.tmp $@

# The adapter's own logic, without MPI.
if DW_CMOCKA
check_PROGRAMS += test/unit/test_btl_work
TESTS += test/unit/test_btl_work
test_unit_test_btl_work_SOURCES = test/unit/test_btl_work.c
test_unit_test_btl_work_CPPFLAGS = $(BTL_CPPFLAGS)
test_unit_test_btl_work_CFLAGS = $(AM_CFLAGS) $(DW_COMPONENT_CFLAGS)
test_unit_test_btl_work_LDADD = libbtl_diwarp.la $(CORE_LIBS) $(OPAL_LIBS) $(CMOCKA_LIBS)
endif

MPI_TESTS = \
	test/mpi/accumulate \
	test/mpi/children \
	test/mpi/collectives \
	test/mpi/async_progress \
	test/mpi/busy_core \
	test/mpi/busy_rank \
	test/mpi/compute_gap \
	test/mpi/crossing \
	test/mpi/datatypes \
	test/mpi/descriptors \
	test/mpi/failing_call \
	test/mpi/finalize_race \
	test/mpi/flood_memory \
	test/mpi/leaving \
	test/mpi/matching \
	test/mpi/modes \
	test/mpi/onesided \
	test/mpi/pt2pt_sizes \
	test/mpi/pvars \
	test/mpi/random_traffic \
	test/mpi/rare_polls \
	test/mpi/refused \
	test/mpi/rollover \
	test/mpi/scheduling \
	test/mpi/spawn \
	test/mpi/no_memory \
	test/mpi/steady \
	test/mpi/threads \
	test/mpi/vanish
check_PROGRAMS += $(MPI_TESTS)

test_mpi_accumulate_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_accumulate_LDADD = $(MPI_LIBS)

test_mpi_children_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_children_LDADD = $(MPI_LIBS)

test_mpi_collectives_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_collectives_LDADD = $(MPI_LIBS)

test_mpi_async_progress_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_async_progress_LDADD = $(MPI_LIBS)
test_mpi_busy_core_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_busy_core_LDADD = $(MPI_LIBS)
test_mpi_busy_rank_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_busy_rank_LDADD = $(MPI_LIBS)

test_mpi_compute_gap_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_compute_gap_LDADD = $(MPI_LIBS)

test_mpi_crossing_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_crossing_LDADD = $(MPI_LIBS)

test_mpi_datatypes_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_datatypes_LDADD = $(MPI_LIBS)

# Its send() is to be found by the component.
test_mpi_failing_call_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_failing_call_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_mpi_failing_call_LDADD = $(MPI_LIBS)

test_mpi_finalize_race_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_finalize_race_LDADD = $(MPI_LIBS)

test_mpi_flood_memory_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_flood_memory_LDADD = $(MPI_LIBS)

test_mpi_leaving_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_leaving_LDADD = $(MPI_LIBS)

test_mpi_matching_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_matching_LDADD = $(MPI_LIBS)

test_mpi_modes_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_modes_LDADD = $(MPI_LIBS)

test_mpi_onesided_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_onesided_LDADD = $(MPI_LIBS)

test_mpi_pt2pt_sizes_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_pt2pt_sizes_LDADD = $(MPI_LIBS)

test_mpi_pvars_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_pvars_LDADD = $(MPI_LIBS)

test_mpi_random_traffic_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_random_traffic_LDADD = $(MPI_LIBS)

test_mpi_rare_polls_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_rare_polls_LDADD = $(MPI_LIBS)

test_mpi_descriptors_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_descriptors_LDADD = $(MPI_LIBS)

test_mpi_refused_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_refused_LDADD = $(MPI_LIBS)

test_mpi_rollover_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_rollover_LDADD = $(MPI_LIBS)

test_mpi_scheduling_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_scheduling_LDADD = $(MPI_LIBS)

test_mpi_spawn_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_spawn_LDADD = $(MPI_LIBS)

test_mpi_no_memory_SOURCES = test/mpi/no_memory.c test/net/refusing_libc.c
test_mpi_no_memory_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_no_memory_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_mpi_no_memory_LDADD = $(MPI_LIBS)
test_mpi_steady_SOURCES = test/mpi/steady.c test/mpi/system_faults.c
test_mpi_steady_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_steady_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_mpi_steady_LDADD = $(MPI_LIBS)

test_mpi_threads_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_threads_LDADD = $(MPI_LIBS)

# Run by test/net/two_hosts.
check_PROGRAMS += test/mpi/local_peers
test_mpi_local_peers_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_local_peers_LDADD = $(MPI_LIBS)

if DW_OPENMPI5
check_PROGRAMS += test/mpi/cut_off test/mpi/from_group test/mpi/suspected test/mpi/ulfm test/mpi/ulfm_unmet
endif
test_mpi_cut_off_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_cut_off_LDADD = $(MPI_LIBS)
test_mpi_from_group_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_from_group_LDADD = $(MPI_LIBS)
test_mpi_suspected_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_suspected_LDADD = $(MPI_LIBS)
test_mpi_ulfm_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_ulfm_LDADD = $(MPI_LIBS)
test_mpi_ulfm_unmet_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_ulfm_unmet_LDADD = $(MPI_LIBS)
test_mpi_vanish_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_vanish_LDADD = $(MPI_LIBS)

# Parts of the NAS kernels that need several ranks.
check_PROGRAMS += test/npb/lu_ghosts
test_npb_lu_ghosts_SOURCES = test/npb/lu_ghosts.c benchmarks/npb/lu_exchange.c \
	benchmarks/npb/lu_exchange.h $(LU_NUMERICS) $(NPB_COMMON)
test_npb_lu_ghosts_CPPFLAGS = $(NPB_CPPFLAGS)
test_npb_lu_ghosts_LDADD = $(NPB_LIBS)

# Of the tools to be preloaded.
check_PROGRAMS += test/tools/traffic test/tools/blocked test/tools/hold
test_tools_traffic_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_tools_traffic_LDADD = $(MPI_LIBS) $(DW_SYSTEM_LIBS)
test_tools_blocked_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_tools_blocked_LDADD = $(MPI_LIBS)
test_tools_hold_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_tools_hold_LDADD = $(MPI_LIBS)

check_PROGRAMS += test/tools/linked
test_tools_linked_SOURCES = test/tools/linked.c $(MPI_TIME_SOURCES)
test_tools_linked_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_tools_linked_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_tools_linked_LDADD = $(MPI_LIBS) $(DW_SYSTEM_LIBS)

# A kernel that is verified or not as it is told to.
check_PROGRAMS += test/npb/verdict
test_npb_verdict_SOURCES = test/npb/verdict.c $(NPB_COMMON)
test_npb_verdict_CPPFLAGS = $(NPB_CPPFLAGS)
test_npb_verdict_LDADD = $(NPB_LIBS)

# Parts of the NAS kernels that need no other rank, but MPI's library.
if DW_CMOCKA
NPB_TESTS = test/npb/test_grids test/npb/test_mg_operators
check_PROGRAMS += $(NPB_TESTS)
TESTS += $(NPB_TESTS)

test_npb_test_grids_SOURCES = test/npb/test_grids.c benchmarks/npb/cg_grid.c \
	benchmarks/npb/cg_matrix.c benchmarks/npb/mg_grid.c $(NPB_COMMON)
test_npb_test_grids_CPPFLAGS = $(NPB_CPPFLAGS)
test_npb_test_grids_LDADD = $(CMOCKA_LIBS) $(NPB_LIBS)

test_npb_test_mg_operators_SOURCES = test/npb/test_mg_operators.c benchmarks/npb/mg_grid.c \
	benchmarks/npb/mg_operators.c $(NPB_COMMON)
test_npb_test_mg_operators_CPPFLAGS = $(NPB_CPPFLAGS)
test_npb_test_mg_operators_CFLAGS = $(NPB_CFLAGS)
test_npb_test_mg_operators_LDADD = $(CMOCKA_LIBS) $(NPB_LIBS)
endif

# Two hosts: an MPI program, and a judge of what a capture shows.
check_PROGRAMS += test/net/net_check test/net/wire_check

test_net_net_check_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_net_net_check_LDADD = $(MPI_LIBS)

test_net_wire_check_SOURCES = test/net/wire_check.c test/net/pcap.c

endif

# ---- fuzz targets ----------------------------------------------------------------------------

if DW_FUZZ

FUZZERS = \
	test/fuzz/fuzz_address \
	test/fuzz/fuzz_cm \
	test/fuzz/fuzz_ddp \
	test/fuzz/fuzz_llp_header \
	test/fuzz/fuzz_mpa \
	test/fuzz/fuzz_ranges \
	test/fuzz/fuzz_rc_receive \
	test/fuzz/fuzz_rc_startup \
	test/fuzz/fuzz_rdmap \
	test/fuzz/fuzz_receive \
	test/fuzz/fuzz_sealed \
	test/fuzz/fuzz_terminate
check_PROGRAMS += $(FUZZERS)

test_fuzz_fuzz_address_LDFLAGS = $(DW_FUZZ_LDFLAGS)
test_fuzz_fuzz_cm_SOURCES = test/fuzz/fuzz_cm.c verbs_diwarp/cm_wire.c
test_fuzz_fuzz_cm_LDFLAGS = $(DW_FUZZ_LDFLAGS)
test_fuzz_fuzz_ddp_LDFLAGS = $(DW_FUZZ_LDFLAGS)
test_fuzz_fuzz_llp_header_LDFLAGS = $(DW_FUZZ_LDFLAGS)
test_fuzz_fuzz_mpa_LDFLAGS = $(DW_FUZZ_LDFLAGS)
test_fuzz_fuzz_ranges_LDFLAGS = $(DW_FUZZ_LDFLAGS)
test_fuzz_fuzz_rc_receive_SOURCES = test/fuzz/fuzz_rc_receive.c test/unit/fake_streams.c
test_fuzz_fuzz_rc_receive_LDFLAGS = $(DW_FUZZ_LDFLAGS)
test_fuzz_fuzz_rc_startup_SOURCES = test/fuzz/fuzz_rc_startup.c test/unit/fake_streams.c
test_fuzz_fuzz_rc_startup_LDFLAGS = $(DW_FUZZ_LDFLAGS)
test_fuzz_fuzz_rdmap_LDFLAGS = $(DW_FUZZ_LDFLAGS)
test_fuzz_fuzz_receive_LDFLAGS = $(DW_FUZZ_LDFLAGS)
test_fuzz_fuzz_sealed_LDFLAGS = $(DW_FUZZ_LDFLAGS)
test_fuzz_fuzz_terminate_LDFLAGS = $(DW_FUZZ_LDFLAGS)

endif
