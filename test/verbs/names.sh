# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by test/verbs/run: the names that the front exports, compared with those of the libraries that it stands
# before, as they are installed here. Expects front and work, a folder.
# shellcheck disable=SC2154 # set by test/verbs/run

# Each name that the library $1 gives a program's objects to is taken: what it exports, less what is private
# or takes no object.
all_names_are_taken()
{
    local library
    library=$(ldconfig -p | awk -v name="$1" '$1 == name { print $NF; exit }')
    nm -D --defined-only "$library" | awk '{ print $NF }' | grep -v PRIVATE | grep '@@' |
        sed 's/@@/ /' | sort >"$work/theirs"
    nm -D --defined-only "$("$front" path)" | awk '{ print $NF }' | grep '@@' | sed 's/@@/ /' |
        sort >"$work/ours"
    cat >"$work/no-object" <<'END'
ibv_copy_ah_attr_from_kern
ibv_copy_path_rec_from_kern
ibv_copy_path_rec_to_kern
ibv_copy_qp_attr_from_kern
ibv_dealloc_dmah
ibv_destroy_comp_cntr
ibv_dofork_range
ibv_dontfork_range
ibv_event_type_str
ibv_fork_init
ibv_get_sysfs_path
ibv_inc_comp_cntr
ibv_inc_err_comp_cntr
ibv_is_fork_initialized
ibv_node_type_str
ibv_port_state_str
ibv_rate_to_mbps
ibv_rate_to_mult
ibv_read_comp_cntr
ibv_read_err_comp_cntr
ibv_read_sysfs_file
ibv_set_comp_cntr
ibv_set_err_comp_cntr
ibv_wc_status_str
mbps_to_ibv_rate
mult_to_ibv_rate
raccept
rbind
rclose
rconnect
repoll_create
repoll_ctl
repoll_wait
rfcntl
rgetpeername
rgetsockname
rgetsockopt
riomap
riounmap
riowrite
rlisten
rpoll
rread
rreadv
rrecv
rrecvfrom
rrecvmsg
rselect
rsend
rsendmsg
rsendto
rsetsockopt
rshutdown
rwrite
rwritev
END
    command join -v 1 "$work/theirs" "$work/ours" | grep . | awk '{ print $1 }' | sort |
        command join -v 1 - "$work/no-object" >"$work/missing"
    cat "$work/missing"
    # The same versions.
    command join "$work/theirs" "$work/ours" | awk '$2 != $3 { print; wrong = 1 } END { exit wrong }' &&
        [ ! -s "$work/missing" ]
}

# What stands before libc, too, serves programs of any architecture, each of which has other versions; a name
# private to libibverbs has another in each.
names_of_libc_have_no_version()
{
    nm -D --defined-only "$("$front" path)" | awk '$2 != "A" && !/@(IBVERBS|RDMACM|DIWARP_VERBS)_/ { print $3 }' |
        sort >"$work/libc"
    cat "$work/libc"
    printf '%s\n' access dlopen ibv_query_gid_type stat stat64 | cmp - "$work/libc"
}
