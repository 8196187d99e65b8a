# SPDX-License-Identifier: BSD-3-Clause
# The core: libdiwarp, its public header and diwarp_info.

lib_LTLIBRARIES += libdiwarp.la
# The core without common/llp/open.c: the test build of the component opens another LLP.
noinst_LTLIBRARIES += libdiwarp_core.la libdiwarp_open.la libdiwarp_whole.la

libdiwarp_core_la_SOURCES = \
	common/base/copy.h \
	common/base/heap.c \
	common/base/heap.h \
	common/base/list.h \
	common/base/map.c \
	common/base/map.h \
	common/base/ring.c \
	common/base/ring.h \
	common/base/pages.c \
	common/base/pages.h \
	common/base/slab.c \
	common/base/slab.h \
	common/base/serial.h \
	common/base/siphash.c \
	common/base/siphash.h \
	common/wire/bytes.h \
	common/wire/crc32c.c \
	common/wire/crc32c.h \
	common/wire/crc32c_internal.h \
	common/wire/crc32c_x86.c \
	common/wire/ddp.c \
	common/wire/ddp.h \
	common/wire/llp_header.c \
	common/wire/llp_header.h \
	common/wire/mpa.c \
	common/wire/mpa.h \
	common/wire/rc_hello.c \
	common/wire/rc_hello.h \
	common/wire/rdmap.c \
	common/wire/rdmap.h \
	common/wire/terminate.c \
	common/wire/terminate.h \
	common/mem/mr.c \
	common/mem/mr.h \
	common/llp/explain.c \
	common/llp/explain.h \
	common/llp/interface.c \
	common/llp/interface.h \
	common/llp/llp.h \
	common/llp/stream.h \
	common/llp/tcp.c \
	common/llp/truesize.c \
	common/llp/udp.c \
	common/llp/udp_hot.c \
	common/llp/udp_icmp.c \
	common/llp/socket_memory.c \
	common/llp/socket_slab.c \
	common/llp/socket_slab.h \
	common/llp/udp_open.c \
	common/llp/udp_splice.c \
	common/llp/udp.h \
	common/rel/delay.h \
	common/rel/recordwin.h \
	common/rel/ranges.c \
	common/rel/ranges.h \
	common/rel/record.c \
	common/rel/record.h \
	common/rel/recvwin.h \
	common/rel/rtt.h \
	common/rel/seen.h \
	common/rel/sendwin.c \
	common/rel/sendwin.h \
	common/progress/helper.c \
	common/progress/sleep.c \
	common/progress/sleep.h \
	common/rnic/address.c \
	common/rnic/address.h \
	common/rnic/atomic.c \
	common/rnic/atomic.h \
	common/rnic/cq.c \
	common/rnic/cq.h \
	common/rnic/deliver.c \
	common/rnic/deliver.h \
	common/rnic/device.c \
	common/rnic/device.h \
	common/rnic/faster_way.c \
	common/rnic/faster_way.h \
	common/rnic/lock.h \
	common/rnic/memory.c \
	common/rnic/path.c \
	common/rnic/path.h \
	common/rnic/peer.c \
	common/rnic/peer.h \
	common/rnic/place.c \
	common/rnic/qp.c \
	common/rnic/qp_run.c \
	common/rnic/qp.h \
	common/rnic/rc.h \
	common/rnic/rc_deliver.c \
	common/rnic/rc_listen.c \
	common/rnic/rc_listen.h \
	common/rnic/rc_post.c \
	common/rnic/rc_qp.c \
	common/rnic/rc_qp.h \
	common/rnic/rc_read.c \
	common/rnic/rc_receive.c \
	common/rnic/rc_receive.h \
	common/rnic/rc_run.c \
	common/rnic/rc_send.c \
	common/rnic/rc_send.h \
	common/rnic/rc_srq.c \
	common/rnic/rc_srq.h \
	common/rnic/rc_startup.c \
	common/rnic/rc_startup.h \
	common/rnic/rc_terminate.c \
	common/rnic/rdma.c \
	common/rnic/rdma.h \
	common/rnic/rdma_grant.c \
	common/rnic/rdma_grant.h \
	common/rnic/rdma_record.c \
	common/rnic/rdma_record.h \
	common/rnic/receive.c \
	common/rnic/receive.h \
	common/rnic/segment.c \
	common/rnic/segment.h \
	common/rnic/send.c \
	common/rnic/send.h \
	common/rnic/send_own.c \
	common/rnic/transmit.c \
	common/rnic/transmit.h \
	common/rnic/transmit_control.c \
	common/rnic/transmit_record.c \
	common/rnic/ud.c \
	common/rnic/ud.h \
	common/rnic/ud_record.c \
	common/rnic/ud_send.c
libdiwarp_core_la_CFLAGS = $(AM_CFLAGS) $(DW_LTO_CFLAGS)
libdiwarp_core_la_LIBADD = $(DW_SYSTEM_LIBS)

libdiwarp_open_la_SOURCES = common/llp/open.c
libdiwarp_open_la_CFLAGS = $(AM_CFLAGS) $(DW_LTO_CFLAGS)

# libtool's CURRENT:REVISION:AGE, not the release: see "Updating version info" in its manual.
libdiwarp_la_SOURCES =
libdiwarp_la_LIBADD = libdiwarp_core.la libdiwarp_open.la
libdiwarp_la_LDFLAGS = $(AM_LDFLAGS) $(DW_LTO_LDFLAGS) -version-info 0:0:0 -no-undefined \
	-export-symbols-regex '^diwarp_'

# What a program of this tree links: internal names are visible there, unlike in the library.
CORE_LIBS = libdiwarp_whole.la
libdiwarp_whole_la_SOURCES =
libdiwarp_whole_la_LIBADD = libdiwarp_core.la libdiwarp_open.la

include_HEADERS = common/include/diwarp.h common/include/diwarp_rc.h

bin_PROGRAMS += diwarp_info
diwarp_info_SOURCES = common/tools/diwarp_info.c
diwarp_info_CPPFLAGS = $(AM_CPPFLAGS) -DDIWARP_VERSION='"$(PACKAGE_VERSION)"'
diwarp_info_LDADD = libdiwarp.la

dist_man_MANS = config/man/diwarp_info.1 config/man/mca_btl_diwarp.7 \
	config/man/diwarp_mpi_tools.7
EXTRA_DIST += common/wire/WIRE.md
