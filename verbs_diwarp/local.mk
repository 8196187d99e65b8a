# SPDX-License-Identifier: BSD-3-Clause
# The front for verbs programs: a library that stands before libibverbs, and the command that loads it.

VERBS_SOURCES = \
	verbs_diwarp/ah.c \
	verbs_diwarp/ah.h \
	verbs_diwarp/async.c \
	verbs_diwarp/async.h \
	verbs_diwarp/bind_mw.c \
	verbs_diwarp/bind_mw.h \
	verbs_diwarp/buf.c \
	verbs_diwarp/channel.c \
	verbs_diwarp/channel.h \
	verbs_diwarp/cm.h \
	verbs_diwarp/cm_addr.c \
	verbs_diwarp/cm_addrinfo.c \
	verbs_diwarp/cm_connect.c \
	verbs_diwarp/cm_connected.c \
	verbs_diwarp/cm_connected.h \
	verbs_diwarp/cm_device.c \
	verbs_diwarp/cm_device.h \
	verbs_diwarp/cm_ep.c \
	verbs_diwarp/cm_event.c \
	verbs_diwarp/cm_event.h \
	verbs_diwarp/cm_id.c \
	verbs_diwarp/cm_id.h \
	verbs_diwarp/cm_link.c \
	verbs_diwarp/cm_link.h \
	verbs_diwarp/cm_listen.c \
	verbs_diwarp/cm_mcast.c \
	verbs_diwarp/cm_mcast.h \
	verbs_diwarp/cm_qp.c \
	verbs_diwarp/cm_qp.h \
	verbs_diwarp/cm_route.c \
	verbs_diwarp/cm_route.h \
	verbs_diwarp/cm_sockaddr.h \
	verbs_diwarp/cm_unsupported.c \
	verbs_diwarp/cm_wire.c \
	verbs_diwarp/cm_wire.h \
	verbs_diwarp/cq.c \
	verbs_diwarp/cq.h \
	verbs_diwarp/cq_ex.c \
	verbs_diwarp/cq_ex.h \
	verbs_diwarp/device.c \
	verbs_diwarp/device_file.c \
	verbs_diwarp/diwarp_verbs.h \
	verbs_diwarp/dm.c \
	verbs_diwarp/dm.h \
	verbs_diwarp/domain.c \
	verbs_diwarp/domain.h \
	verbs_diwarp/extension.c \
	verbs_diwarp/front.h \
	verbs_diwarp/graves.c \
	verbs_diwarp/graves.h \
	verbs_diwarp/grh.c \
	verbs_diwarp/grh.h \
	verbs_diwarp/mapped.c \
	verbs_diwarp/mapped.h \
	verbs_diwarp/mcast.c \
	verbs_diwarp/mcast.h \
	verbs_diwarp/memory.c \
	verbs_diwarp/memory.h \
	verbs_diwarp/mw.c \
	verbs_diwarp/mw.h \
	verbs_diwarp/poll.c \
	verbs_diwarp/poll.h \
	verbs_diwarp/post.c \
	verbs_diwarp/post.h \
	verbs_diwarp/qp.c \
	verbs_diwarp/qp.h \
	verbs_diwarp/query.c \
	verbs_diwarp/query.h \
	verbs_diwarp/opened.c \
	verbs_diwarp/ours.c \
	verbs_diwarp/rc.c \
	verbs_diwarp/rc.h \
	verbs_diwarp/rc_queues.c \
	verbs_diwarp/rc_queues.h \
	verbs_diwarp/rd.c \
	verbs_diwarp/rd.h \
	verbs_diwarp/rd_gather.c \
	verbs_diwarp/rd_gather.h \
	verbs_diwarp/rdma.c \
	verbs_diwarp/rdma.h \
	verbs_diwarp/request.h \
	verbs_diwarp/recvs.c \
	verbs_diwarp/recvs.h \
	verbs_diwarp/srq.c \
	verbs_diwarp/srq.h \
	verbs_diwarp/sqd.c \
	verbs_diwarp/sqd.h \
	verbs_diwarp/states.c \
	verbs_diwarp/states.h \
	verbs_diwarp/unsupported.c \
	verbs_diwarp/wr.c \
	verbs_diwarp/wr.h
EXTRA_DIST += $(VERBS_SOURCES) verbs_diwarp/symbols.map verbs_diwarp/diwarp-verbs.in verbs_diwarp/README.md

if DW_SHARED

pkglib_LTLIBRARIES += libdiwarp-verbs.la
include_HEADERS += verbs_diwarp/diwarp_verbs.h
libdiwarp_verbs_la_SOURCES = $(VERBS_SOURCES)
# What is seen outside is in symbols.map.
libdiwarp_verbs_la_CFLAGS = $(AM_CFLAGS) $(DW_FRAME_CFLAGS) -fvisibility=default
libdiwarp_verbs_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-Wl,--version-script=$(srcdir)/verbs_diwarp/symbols.map
libdiwarp_verbs_la_LIBADD = libdiwarp.la $(DW_SYSTEM_LIBS)
EXTRA_libdiwarp_verbs_la_DEPENDENCIES = verbs_diwarp/symbols.map

bin_SCRIPTS = diwarp-verbs
CLEANFILES = diwarp-verbs
diwarp-verbs: verbs_diwarp/diwarp-verbs.in Makefile
	$(AM_V_GEN)sed 's,@pkglibdir@,$(pkglibdir),' '$(srcdir)/verbs_diwarp/diwarp-verbs.in' >$@.tmp && \
	chmod +x $@.tmp && mv $@.tmp $@

endif
