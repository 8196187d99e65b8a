/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's way changes (another address pair) while datagrams of the old one are under way: RD's
 * window as in window.pml, over two ways. What comes late from the old way is a duplicate or fills a
 * hole; what died with it is sent again on the new one.
 *
 * Mirrors besides: common/rnic/route.c (set_route), common/rd/service.c (on_route): the window, its
 * order of transmissions and its timer go on; nothing of them is per way.
 *
 * 30,349 states with 4 messages, 1 switch, 1 fault; 405,635 with 3, 1 switch, a cut, 1 fault, 1 early
 * probe.
 */
#define PATHS 2
#ifndef SWITCHES
#define SWITCHES 1
#endif
#include "window.pml"
