# SPDX-License-Identifier: BSD-3-Clause
# The Open MPI component, and a folder that holds just it, to be used from the build tree:
# mpirun --mca mca_base_component_path BUILD/component:SYSTEM_DEFAULT --mca btl diwarp,self

BTL_SOURCES = \
	btl_diwarp/btl_diwarp.h \
	btl_diwarp/btl_diwarp_component.c \
	btl_diwarp/btl_diwarp_cores.c \
	btl_diwarp/btl_diwarp_osc.c \
	btl_diwarp/btl_diwarp_params.c \
	btl_diwarp/btl_diwarp_peer.c \
	btl_diwarp/btl_diwarp_progress.c \
	btl_diwarp/btl_diwarp_pvars.c \
	btl_diwarp/btl_diwarp_rc.h \
	btl_diwarp/btl_diwarp_rc_endpoint.c \
	btl_diwarp/btl_diwarp_rc_transport.c \
	btl_diwarp/btl_diwarp_rd.c \
	btl_diwarp/btl_diwarp_rdma.c \
	btl_diwarp/btl_diwarp_send.c \
	btl_diwarp/btl_diwarp_work.c \
	btl_diwarp/btl_diwarp_work.h
# What differs between versions of Open MPI; configure links btl_diwarp_openmpi.h to one's header.
if DW_OPENMPI5
BTL_SOURCES += btl_diwarp/btl_diwarp_openmpi5.c btl_diwarp/btl_diwarp_openmpi5.h \
	btl_diwarp/btl_diwarp_openmpi5_modex.c
else
BTL_SOURCES += btl_diwarp/btl_diwarp_openmpi4.c btl_diwarp/btl_diwarp_openmpi4.h
endif
EXTRA_DIST += \
	btl_diwarp/openmpi5/opal/mca/threads/pthreads/threads_pthreads_mutex.h \
	btl_diwarp/openmpi5/opal/mca/threads/pthreads/threads_pthreads_threads.h \
	btl_diwarp/openmpi5/opal/mca/threads/pthreads/threads_pthreads_tsd.h
BTL_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_builddir) $(OPAL_CPPFLAGS)
BTL_HELP = btl_diwarp/help-mpi-btl-diwarp.txt
EXTRA_DIST += $(BTL_HELP)

if DW_COMPONENT

noinst_LTLIBRARIES += libbtl_diwarp.la
libbtl_diwarp_la_SOURCES = $(BTL_SOURCES)
libbtl_diwarp_la_CPPFLAGS = $(BTL_CPPFLAGS)
libbtl_diwarp_la_CFLAGS = $(AM_CFLAGS) $(DW_COMPONENT_CFLAGS) $(DW_FRAME_CFLAGS) $(DW_LTO_CFLAGS)

# -z now and -z defs: a component that does not fit the Open MPI at hand fails when it is loaded,
# with the name of what is missing, not in the middle of a job.
COMPONENT_LDFLAGS = $(AM_LDFLAGS) $(DW_LTO_LDFLAGS) -module -avoid-version -shared \
	-export-symbols-regex '^mca_btl_diwarp_component$$' -Wl,-z,now -Wl,-z,defs
COMPONENT_LIBS = libbtl_diwarp.la libdiwarp_core.la $(OPAL_LIBS) $(DW_SYSTEM_LIBS)

component_LTLIBRARIES = btl_diwarp/mca_btl_diwarp.la
btl_diwarp_mca_btl_diwarp_la_SOURCES =
btl_diwarp_mca_btl_diwarp_la_LIBADD = libdiwarp_open.la $(COMPONENT_LIBS)
btl_diwarp_mca_btl_diwarp_la_LDFLAGS = $(COMPONENT_LDFLAGS)

# The help text lies beside the component, which looks for it there: so it is found from Open MPI's
# plugin folder, a prefix, a user's home and the build tree alike.
component_DATA = $(BTL_HELP)

BUILT += component/mca_btl_diwarp.so component/help-mpi-btl-diwarp.txt

component/mca_btl_diwarp.so: btl_diwarp/mca_btl_diwarp.la
	@$(MKDIR_P) component
	$(AM_V_GEN)cp btl_diwarp/.libs/mca_btl_diwarp.so $@.tmp && mv -f $@.tmp $@

component/help-mpi-btl-diwarp.txt: $(BTL_HELP)
	@$(MKDIR_P) component
	$(AM_V_GEN)cp $(top_srcdir)/$(BTL_HELP) $@.tmp && mv -f $@.tmp $@

# Debian 13's mpirun has programs look for components in PMIx's folder alone.
TELL_OF_PATH = @if test -z '$(DESTDIR)' && env -u OMPI_MCA_mca_base_component_path \
	    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 30 '$(MPIRUN)' -np 1 \
	    printenv OMPI_MCA_mca_base_component_path >/dev/null 2>&1; then \
	    echo; \
	    echo 'This mpirun has programs look for components elsewhere, unless its environment has'; \
	    echo '  PMIX_MCA_mca_base_param_files=none'; \
	    echo; \
	fi

# Open MPI loads the .so; the .la would only be a second name for it.
install-data-hook:
	rm -f '$(DESTDIR)$(componentdir)/mca_btl_diwarp.la'
	@if test -n '$(componentpath)'; then \
	    echo; \
	    echo "Open MPI does not look in $(componentpath) by itself. Use"; \
	    echo "  mpirun --mca mca_base_component_path $(componentpath):SYSTEM_DEFAULT --mca btl diwarp,self ..."; \
	    echo; \
	fi
	$(TELL_OF_PATH)

uninstall-hook:
	rm -f '$(DESTDIR)$(componentdir)/mca_btl_diwarp.so'
	rm -f '$(DESTDIR)$(pkglibdir)'/*.so
	-rmdir '$(DESTDIR)$(componentdir)' '$(DESTDIR)$(pkglibdir)' 2>/dev/null

# For one user, without rights on Open MPI's own folders; found there with no flag.
userdir = $(HOME)/.openmpi/components

install-user: all
	$(MKDIR_P) '$(DESTDIR)$(userdir)'
	$(INSTALL_PROGRAM) component/mca_btl_diwarp.so '$(DESTDIR)$(userdir)/mca_btl_diwarp.so'
	$(INSTALL_DATA) $(top_srcdir)/$(BTL_HELP) '$(DESTDIR)$(userdir)/help-mpi-btl-diwarp.txt'
	$(TELL_OF_PATH)

uninstall-user:
	rm -f '$(DESTDIR)$(userdir)/mca_btl_diwarp.so' \
	    '$(DESTDIR)$(userdir)/help-mpi-btl-diwarp.txt'

endif
