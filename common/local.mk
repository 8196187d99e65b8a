# SPDX-License-Identifier: BSD-3-Clause
# The core: libdiwarp, its public headers, diwarp_info and diwarp_ping.

lib_LTLIBRARIES += libdiwarp.la
# The core without common/product.c: the test build of the component opens another LLP.
noinst_LTLIBRARIES += libdiwarp_core.la libdiwarp_open.la libdiwarp_whole.la

libdiwarp_core_la_SOURCES = \
	common/base/cells.c \
	common/base/cells.h \
	common/base/copy.h \
	common/base/crypto.h \
	common/base/gcm.h \
	common/base/heap.c \
	common/base/heap.h \
	common/base/iov.h \
	common/base/list.h \
	common/base/map.c \
	common/base/map.h \
	common/base/ring.c \
	common/base/ring.h \
	common/base/serial.h \
	common/base/siphash.h \
	common/base/slab.c \
	common/base/slab.h \
	common/datagram/auth.c \
	common/datagram/auth.h \
	common/datagram/datagrams.c \
	common/datagram/datagrams.h \
	common/datagram/seal.c \
	common/datagram/seal.h \
	common/datagram/segments.c \
	common/datagram/segments.h \
	common/llp/control.h \
	common/llp/interface.c \
	common/llp/interface.h \
	common/llp/llp.h \
	common/llp/siblings.c \
	common/llp/siblings.h \
	common/llp/socket.c \
	common/llp/socket.h \
	common/llp/stream.h \
	common/llp/tcp.c \
	common/llp/udp.c \
	common/llp/udp_socket.h \
	common/llp/udp_group.c \
	common/llp/udp_icmp.c \
	common/mem/atomic.c \
	common/mem/atomic.h \
	common/mem/mr.c \
	common/mem/mr.h \
	common/path/path.c \
	common/path/path.h \
	common/path/ways.c \
	common/path/ways.h \
	common/open.c \
	common/open.h \
	common/progress/progress.c \
	common/rc/access.c \
	common/rc/connect.c \
	common/rc/listen.c \
	common/rc/post.c \
	common/rc/qp.c \
	common/rc/qp.h \
	common/rc/rc.h \
	common/rc/receive.c \
	common/rc/run.c \
	common/rc/send.c \
	common/rc/terminate.c \
	common/rd/deliver.c \
	common/rd/handle.c \
	common/rd/handle.h \
	common/rd/identity.c \
	common/rd/parts.h \
	common/rd/peer.c \
	common/rd/post.c \
	common/rd/probe.c \
	common/rd/rd.c \
	common/rd/rd.h \
	common/rd/rdma.c \
	common/rd/receive.c \
	common/rd/send.c \
	common/rd/service.c \
	common/rd/transmit.c \
	common/record/grant.c \
	common/record/record.c \
	common/record/records.h \
	common/record/sink.c \
	common/record/sink_ways.c \
	common/record/source.c \
	common/rel/ranges.c \
	common/rel/ranges.h \
	common/rel/record.c \
	common/rel/record.h \
	common/rel/recordwin.c \
	common/rel/recordwin.h \
	common/rel/recvwin.h \
	common/rel/replay.h \
	common/rel/rtt.h \
	common/rel/sendwin.c \
	common/rel/sendwin.h \
	common/rel/stripes.c \
	common/rel/stripes.h \
	common/rnic/cq.c \
	common/rnic/cq.h \
	common/rnic/device.c \
	common/rnic/device.h \
	common/rnic/groups.c \
	common/rnic/groups.h \
	common/rnic/qp.h \
	common/rnic/route.c \
	common/rnic/run.c \
	common/rnic/secret.c \
	common/rnic/secret.h \
	common/rnic/service.h \
	common/rnic/srq.c \
	common/rnic/srq.h \
	common/rnic/verbs.c \
	common/ud/answer.c \
	common/ud/lazy.c \
	common/ud/read.c \
	common/ud/reads.h \
	common/ud/receive.c \
	common/ud/record.c \
	common/ud/send.c \
	common/ud/service.c \
	common/ud/source.c \
	common/ud/train.c \
	common/ud/ud.h \
	common/wire/bytes.h \
	common/wire/crc32c.c \
	common/wire/crc32c.h \
	common/wire/ddp.c \
	common/wire/ddp.h \
	common/wire/llp_header.c \
	common/wire/llp_header.h \
	common/wire/mpa.c \
	common/wire/mpa.h \
	common/wire/rdmap.c \
	common/wire/rdmap.h
if DW_LIBCRYPTO
libdiwarp_core_la_SOURCES += common/base/crypto.c common/base/gcm_mb.h
if DW_IPSEC_MB
libdiwarp_core_la_SOURCES += common/base/gcm_mb.c
else
libdiwarp_core_la_SOURCES += common/base/gcm_mb_none.c
endif
else
libdiwarp_core_la_SOURCES += common/base/crypto_none.c
endif
EXTRA_DIST += common/base/crypto.c common/base/crypto_none.c common/base/gcm_mb.c \
	common/base/gcm_mb.h common/base/gcm_mb_none.c
libdiwarp_core_la_CPPFLAGS = $(AM_CPPFLAGS) $(LIBCRYPTO_CFLAGS)
libdiwarp_core_la_CFLAGS = $(AM_CFLAGS) $(DW_FRAME_CFLAGS) $(DW_LTO_CFLAGS)
libdiwarp_core_la_LIBADD = $(DW_SYSTEM_LIBS)

libdiwarp_open_la_SOURCES = common/product.c
libdiwarp_open_la_CFLAGS = $(AM_CFLAGS) $(DW_FRAME_CFLAGS) $(DW_LTO_CFLAGS)

# libtool's CURRENT:REVISION:AGE, not the release: see "Updating version info" in its manual.
libdiwarp_la_SOURCES =
libdiwarp_la_LIBADD = libdiwarp_core.la libdiwarp_open.la
libdiwarp_la_LDFLAGS = $(AM_LDFLAGS) $(DW_LTO_LDFLAGS) -version-info 1:0:0 -no-undefined \
	-export-symbols-regex '^diwarp_'

# What a program of this tree links: internal names are visible there, unlike in the library.
CORE_LIBS = libdiwarp_whole.la
libdiwarp_whole_la_SOURCES =
libdiwarp_whole_la_LIBADD = libdiwarp_core.la libdiwarp_open.la

include_HEADERS = common/include/diwarp.h common/include/diwarp_group.h common/include/diwarp_helper.h \
	common/include/diwarp_rc.h common/include/diwarp_ud.h

bin_PROGRAMS += diwarp_info diwarp_ping
diwarp_info_SOURCES = common/tools/diwarp_info.c
diwarp_info_CPPFLAGS = $(AM_CPPFLAGS) -DDIWARP_VERSION='"$(PACKAGE_VERSION)"'
diwarp_info_LDADD = libdiwarp.la
diwarp_ping_SOURCES = \
	common/tools/diwarp_ping.c \
	common/tools/ping_control.c \
	common/tools/ping_control.h \
	common/tools/ping_host.c \
	common/tools/ping_host.h \
	common/tools/ping_link.c \
	common/tools/ping_link.h \
	common/tools/ping_measure.c \
	common/tools/ping_measure.h \
	common/tools/ping_report.c \
	common/tools/ping_report.h \
	common/tools/ping_serve.c \
	common/tools/ping_serve.h
diwarp_ping_CPPFLAGS = $(AM_CPPFLAGS) -DDIWARP_VERSION='"$(PACKAGE_VERSION)"'
diwarp_ping_LDADD = libdiwarp.la

EXTRA_DIST += common/wire/WIRE.md common/README.md
