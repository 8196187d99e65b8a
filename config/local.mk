# SPDX-License-Identifier: BSD-3-Clause
# Manual pages, and what else is for people. One of section 3 is installed under each name of its NAME line: a file and links.

API_PAGES = \
	config/man/diwarp_address_pack.3 \
	config/man/diwarp_alloc_pd.3 \
	config/man/diwarp_attach_group.3 \
	config/man/diwarp_connect.3 \
	config/man/diwarp_create_ah.3 \
	config/man/diwarp_create_cq.3 \
	config/man/diwarp_create_qp.3 \
	config/man/diwarp_find_record.3 \
	config/man/diwarp_listen.3 \
	config/man/diwarp_open_device.3 \
	config/man/diwarp_poll_cq.3 \
	config/man/diwarp_post_recv.3 \
	config/man/diwarp_post_send.3 \
	config/man/diwarp_query_counters.3 \
	config/man/diwarp_query_read.3 \
	config/man/diwarp_rc_post_recv.3 \
	config/man/diwarp_rc_post_send.3 \
	config/man/diwarp_reg_mr.3 \
	config/man/diwarp_start_helper.3

dist_man_MANS = $(API_PAGES) config/man/diwarp.7 config/man/diwarp_info.1 \
	config/man/diwarp_ping.1 config/man/diwarp-verbs.1 config/man/diwarp_verbs.7 \
	config/man/mca_btl_diwarp.7 config/man/diwarp_mpi_tools.7

# Wireshark's dissector; where it is looked for differs between distributions.
dist_pkgdata_DATA = config/wireshark/diwarp.lua

# $(call each_link,COMMAND): a shell command, with $$page and $$name, for each name that is not the
# page's own.
each_link = for path in $(API_PAGES); do \
	    page=$${path\#\#*/}; \
	    for name in $$(sed -n '/^\.SH NAME/{n;s/ \\-.*//;s/,//g;p;}' '$(top_srcdir)'/$$path); do \
	        test $$name.3 = $$page || $(1) || exit 1; \
	    done; \
	done

install-data-local:
	$(MKDIR_P) '$(DESTDIR)$(man3dir)'
	$(call each_link,ln -sf $$page '$(DESTDIR)$(man3dir)'/$$name.3)

uninstall-local:
	$(call each_link,rm -f '$(DESTDIR)$(man3dir)'/$$name.3)
