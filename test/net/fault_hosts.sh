# SPDX-License-Identifier: BSD-3-Clause
# Sourced by faults: the hosts, the stranger, a job on them, and how its end is judged.
# shellcheck shell=bash
# shellcheck disable=SC2154 # set by who sources this

subnet=10.76.0
hosts=("dwfa$$" "dwfb$$")
stranger=dwfs$$
work=$(mktemp -d) || exit 2
# mpirun that is to go on without a rank may end with 0, though another one fails.
any_status=
# How often this case may run again, and whether it is to.
tries_left=0
again=
job=

# ---- hosts --------------------------------------------------------------------------------------

clean_up()
{
    local host pids
    for host in "${hosts[@]}" "$stranger"; do
        pids=$(ip netns pids "$host" 2>/dev/null)
        # shellcheck disable=SC2086 # one word for each process
        [ -n "$pids" ] && kill -KILL $pids 2>/dev/null
        ip netns del "$host" 2>/dev/null
        rm -rf "/etc/netns/$host" "/tmp/ompi.$host".*
    done
    rmdir /etc/netns 2>/dev/null
    rm -rf "$work"
}

make_host()
{
    ip netns add "$1" || return 1
    ip -n "$1" link set lo up || return 1
    mkdir -p "/etc/netns/$1" || return 1
    printf '127.0.0.1 localhost\n%s\n%s\n' "$subnet.1 ${hosts[0]}" "$subnet.2 ${hosts[1]}" \
        >"/etc/netns/$1/hosts"
}

make_hosts()
{
    local i
    make_host "$stranger" || return 1
    ip -n "$stranger" link add br0 type bridge || return 1
    ip -n "$stranger" addr add "$subnet.3/24" dev br0 || return 1
    ip -n "$stranger" link set br0 mtu 1500 up || return 1
    for i in 0 1; do
        make_host "${hosts[i]}" || return 1
        ip link add eth0 netns "${hosts[i]}" type veth peer name "port$i" netns "$stranger" ||
            return 1
        ip -n "${hosts[i]}" addr add "$subnet.$((i + 1))/24" dev eth0 || return 1
        ip -n "${hosts[i]}" link set eth0 mtu 1500 up || return 1
        ip -n "$stranger" link set "port$i" master br0 up || return 1
        # With BBR a connection may rest for up to 46 s after a cut (Linux 6.18, hosts busy).
        ip -n "${hosts[i]}" route change "$subnet.0/24" dev eth0 congctl cubic || return 1
    done
    # An interface counts only once its carrier is there, a moment after both ends are up.
    for i in 0 1; do
        for _ in {1..50}; do
            grep -q 'state UP' < <(ip -n "${hosts[i]}" -o link show eth0) && break
            sleep 0.1
        done
    done
    cat >"$work/agent" <<'END'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && eval "$1"' "$host" "$*"
END
    chmod +x "$work/agent"
}

# on HOST COMMAND...: HOST is 0, 1 or the stranger.
on()
{
    local host=$stranger
    [ "$1" = stranger ] || host=${hosts[$1]}
    shift
    ip netns exec "$host" "$@"
}

# Process ids of the ranks on host $1: programs named $2.
ranks_on()
{
    local pid
    for pid in $(ip netns pids "${hosts[$1]}"); do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ] && echo "$pid"
    done
}

# cut HOST [EXPRESSION [HOOK]]: what reaches the host gets lost, or what it sends where the hook is
# "output"; if an expression is given, only what it matches.
cut()
{
    local hook=${3:-input} way=iifname
    [ $hook = input ] || way=oifname
    on "$1" nft -f - <<END
table inet cut {
    chain $hook {
        type filter hook $hook priority 0; policy accept;
        $way "eth0" ${2:-} counter drop
    }
}
END
}

mend()
{
    on "$1" nft delete table inet cut
}

# ---- jobs ---------------------------------------------------------------------------------------

now_ms()
{
    echo "${EPOCHREALTIME/[.,]/}" | sed 's/...$//'
}

# Milliseconds since $1.
since_ms()
{
    echo $(($(now_ms) - $1))
}

# start_job PLACES [MPIRUN OPTION...] -- PROGRAM [ARGUMENT...]: PLACES is how many ranks each host
# has, "1 1" or "2 0". Output in $work/output.
start_job()
{
    local places=("${hosts[0]}:${1% *}") options=() count=$((${1% *} + ${1#* }))
    [ "${1#* }" = 0 ] || places+=("${hosts[1]}:${1#* }")
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    set_mca_options diwarp
    : >"$work/output"
    timeout -k 10 "$case_seconds" ip netns exec "${hosts[0]}" unshare --uts \
        sh -c 'hostname "$0" && exec "$@"' "${hosts[0]}" \
        "$mpirun" -np "$count" --host "$(IFS=,; echo "${places[*]}")" --bind-to none \
        --oversubscribe --mca plm_rsh_agent "$work/agent" --mca plm_rsh_no_tree_spawn 1 \
        --mca oob_tcp_if_include "$subnet.0/24" "${mca_options[@]}" \
        "${options[@]}" "$@" >"$work/output" 2>&1 &
    job=$!
}

# Until the output has $1, at most $2 seconds.
await_text()
{
    local end_ms=$(($(now_ms) + $2 * 1000))
    until grep -aq -- "$1" "$work/output"; do
        [ "$(now_ms)" -lt "$end_ms" ] && kill -0 "$job" 2>/dev/null || return 1
        sleep 0.05
    done
}

# start_steady PLACES [MPIRUN OPTION...]: returns when its ranks have spoken.
start_steady()
{
    local places=$1
    shift
    start_job "$places" "$@" -- "$steady" --time-limit "$case_seconds" --seconds "$case_seconds"
    await_text 'steady: running' 30
}

# Has it end, half a second from now.
stop_steady()
{
    sleep 0.5
    kill -USR1 "$(ranks_on 0 steady)"
}

# Of a job that mpirun cannot end.
drop_job()
{
    local host
    for host in "${hosts[@]}"; do
        # shellcheck disable=SC2046 # one word for each process
        kill -KILL $(ip netns pids "$host") 2>/dev/null
    done
    wait "$job" 2>/dev/null
    job=
}

# Sets `status' and, of a job of steady that passed, `longest_ms'.
end_job()
{
    wait "$job"
    status=$?
    job=
    longest_ms=$(sed -n 's/.*longest \([0-9]*\)\.\([0-9]*\) s.*/\1\2/p' "$work/output")
    longest_ms=$((10#${longest_ms:-0}))
}

# The count of what was dropped for the reason $1, over all ranks.
dropped()
{
    sed -n "s/.*dropped:.* $1=\([0-9]*\).*/\1/p" "$work/output" | grep . || echo 0
}

# Again where mpirun lost what a rank had to say.
run_case()
{
    local passed_before=$passed failed_before=$failed
    for tries_left in {4..0}; do
        again=
        passed=$passed_before failed=$failed_before
        "case_$1"
        [ "$again" ] || break
    done
}

# verdict NAME OK TEXT: OK is 0 when all was as it should be.
verdict()
{
    [ "$2" = 0 ] || [ "$tries_left" = 0 ] || ! help_was_lost <"$work/output" || again=yes
    [ ! "$again" ] || return 0
    if [ "$2" = 0 ]; then
        passed=$((passed + 1))
        echo "ok   $1: $3"
        return
    fi
    failed=$((failed + 1))
    echo "FAIL $1: $3"
    tail -n 25 "$work/output" | sed 's/^/  | /'
}

# expect_pass NAME MS: the job goes on and ends well, no exchange took longer than so many
# milliseconds, but for the slack.
expect_pass()
{
    local bad=0
    end_job
    [ "$status" = 0 ] && grep -aq '^PASS ' "$work/output" &&
        [ "$longest_ms" -le $(($2 + slack_ms)) ] || bad=1
    verdict "$1" $bad "$(grep -a '^PASS ' "$work/output" || echo "exit status $status")"
}

# expect_error NAME BEGAN MS TEXT...: the job ends with an error so many milliseconds after it began
# to go wrong, but for the slack, and has said each text.
expect_error()
{
    local name=$1 began_ms=$2 limit_ms=$3 bad=0 took_ms text
    shift 3
    end_job
    took_ms=$(since_ms "$began_ms")
    [ "$any_status" ] || [ "$status" != 0 ] || bad=1
    [ "$status" != 124 ] && [ "$took_ms" -le $((limit_ms + slack_ms)) ] || bad=1
    for text in "$@"; do
        grep -aq -- "$text" "$work/output" || bad=1
    done
    verdict "$name" $bad \
        "exit status $status after $took_ms ms: $(grep -ao -m 1 -e "${*: -1}" "$work/output")"
}
