# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Shared by the scripts of benchmarks/ and test/: finding programs, launching MPI jobs, statistics.
# Sourced by bash; expects `top` (the source folder). The options --bindir and --component set
# `bindir` and `component`. DIWARP_BUILD (the build folder), MPIRUN and OMPI_INFO may come from outside.

# Decimal points in the clock and in figures, and English messages.
export LC_ALL=C.UTF-8
unset LANGUAGE

component=
bindir=
build=${DIWARP_BUILD:-$top/build}
mpirun=${MPIRUN:-mpirun}
# shellcheck disable=SC2034 # for those that source this
ompi_info=${OMPI_INFO:-ompi_info}
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# A script that is told to end ends its job and does not go on with the next. Again in each subshell
# that launches jobs: there traps are not in force.
take_stop_signals()
{
    trap 'stop 129' HUP
    trap 'stop 130' INT
    trap 'stop 131' QUIT
    trap 'stop 143' TERM
}
take_stop_signals

die()
{
    echo "${0##*/}: $*" >&2
    exit 2
}

# Ends the script with status $1, and first what it runs in the background: mpirun is asked to, so
# that it can tidy up, and what is left of its session is killed.
stop()
{
    local job jobs
    trap '' HUP INT QUIT TERM
    jobs=$(jobs -pr)
    for job in $jobs; do
        kill "$job"
    done
    for job in $jobs; do
        wait "$job"
        kill_session "$job"
    done
    exit "$1"
} 2>/dev/null

# Each rank has a process group of its own, but stays in the session.
kill_session()
{
    local file fields
    for file in /proc/[0-9]*/stat; do
        read -r fields <"$file" || continue
        # After the name: state, parent, group, session.
        read -r -a fields <<<"${fields##*) }"
        if [ "${fields[3]:-}" = "$1" ]; then
            file=${file#/proc/}
            kill -KILL "${file%/stat}"
        fi
    done
}

# Prints where program $1 is: --bindir, or the build folder.
find_program()
{
    local dir sub
    for dir in "$bindir" "$build"; do
        for sub in . benchmarks test/net test/mpi test/npb; do
            if [ -n "$dir" ] && [ -f "$dir/$sub/$1" ] && [ -x "$dir/$sub/$1" ]; then
                echo "$dir/$sub/$1"
                return 0
            fi
        done
    done
    echo "${0##*/}: program $1 not found; build first (make all check-programs), or give --bindir DIR" >&2
    return 1
}

# Absolute path of a folder given by the user.
existing_dir()
{
    (cd "$1" 2>/dev/null && pwd) || die "no such folder: $1"
}

# The numbers in a kernel's list on stdin: "0-2,5" gives 0 1 2 5, one a line.
list_numbers()
{
    tr ',' '\n' | while IFS=- read -r first last; do
        seq "$first" "${last:-$first}"
    done
}

# Cores that this process may use, as mpirun counts them: hardware threads of a core are one.
cores()
{
    local cpu
    sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | list_numbers |
        while read -r cpu; do
            cat "/sys/devices/system/cpu/cpu$cpu/topology/thread_siblings_list" 2>/dev/null ||
                echo "$cpu"
        done | sort -u | wc -l
}

# set_mca_options BTL: fills the array mca_options.
set_mca_options()
{
    mca_options=(--mca pml ob1 --mca btl "$1,self")
    [ -n "$component" ] &&
        mca_options+=(--mca mca_base_component_path "$component:SYSTEM_DEFAULT")
    return 0
}

# launch BTL RANKS SECONDS [MPIRUN OPTION...] -- PROGRAM [ARGUMENT...]
# One core for each rank while they last; `crowd` is how many processes there are when other jobs
# run at the same time.
launch()
{
    local btl=$1 ranks=$2 seconds=$3 placement=(--bind-to core)
    local options=()
    shift 3
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    if [ "${crowd:-$ranks}" -gt "$(cores)" ]; then
        placement=(--oversubscribe --bind-to none --mca mpi_yield_when_idle 1)
    fi
    set_mca_options "$btl"
    # All on one host: TCP neither needs nor prefers another interface.
    [ "$btl" = tcp ] && options+=(--mca btl_tcp_if_include lo)
    # Signals are taken while we wait. mpirun gets one of them, from us, also after a Ctrl-C: a
    # second one makes it exit without ending its ranks.
    setsid timeout --foreground -k 10 "$seconds" "$mpirun" -np "$ranks" "${placement[@]}" \
        "${mca_options[@]}" "${options[@]}" "$@" &
    wait $!
}

# Whether mpirun, whose output is stdin, lost a help text or crashed over one. In Open MPI 4.1 two threads of
# mpirun share the text of a rank on its own host; one may free it before the other has copied it.
help_was_lost()
{
    grep -aq 'mca_rml_oob\.so(orte_rml_oob_send_buffer_nb\|ORTE_ERROR_LOG.*util/show_help\.c'
}

# Value of key $1 in the first line of stdin that begins with the words $2.
value_of()
{
    awk -v key="$1" -v words="$2" 'index($0, words) == 1 {
        for (i = 1; i <= NF; i++)
            if (index($i, key "=") == 1) {
                print substr($i, length(key) + 2)
                exit
            }
    }'
}

# Median of the numbers in stdin, one a line.
median()
{
    sort -g | awk '{ v[NR] = $1 } END { if (NR) print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'
}

# median_ratio FILE FILE: of line by line.
median_ratio()
{
    paste "$1" "$2" | awk '{ print $1 / $2 }' | median
}

# A three-dimensional grid of $1 processes, as even as its factors allow: 4 gives "2 2 1".
process_grid()
{
    awk -v n="$1" 'BEGIN {
        p[1] = p[2] = p[3] = 1
        for (f = 2; n > 1; f++)
            for (; n % f == 0; n /= f)
                factors[++count] = f
        for (; count; count--) {
            least = 1
            for (d = 2; d <= 3; d++)
                if (p[d] < p[least])
                    least = d
            p[least] *= factors[count]
        }
        print p[1], p[2], p[3]
    }'
}
