# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced: hosts on this one, and networks between them. A host is a network namespace with a name of
# its own, node0 to node7; mpirun starts there what it would start by ssh. The networks are bridges
# of the script's own network namespace, which plays the switches; behind routers there are two sites.
# Processes, mounts and networks live in namespaces that end with the script, however it ends.
# Expects benchmarks/lib.sh and skip(). Sets: hosts, work (a folder in memory).
# shellcheck disable=SC2154 # set by benchmarks/lib.sh

# The network for mpirun itself, which no BTL is to use: interface, and network of the addresses.
boot_if=boot0
boot_net=10.77.0
hosts_max=8
work=/run/work
hosts=()
forwarders=()

# ---- the script's own namespaces ----------------------------------------------------------------

world=(--mount --net --pid --fork --mount-proc)

# Skips the script where namespaces of its own are not possible.
require_world()
{
    local why tool
    [ "$(id -u)" = 0 ] || skip 'network namespaces need root'
    for tool in ip nft tc setpriv unshare "$mpirun"; do
        command -v "$tool" >/dev/null || skip "no $tool (Debian: iproute2, nftables, openmpi-bin)"
    done
    why=$(timeout 10 unshare "${world[@]}" --uts true 2>&1) ||
        skip "namespaces are not allowed here: $why"
}

# own_world ARGUMENT...: runs the script once more, with these arguments, in namespaces of its own,
# and returns there.
own_world()
{
    if [ "${DIWARP_OWN_WORLD:-}" ]; then
        unset DIWARP_OWN_WORLD
        furnish_world || die 'cannot mount in namespaces of my own'
        return
    fi
    require_world
    # The first process of a PID namespace takes all others with it.
    DIWARP_OWN_WORLD=1 setpriv --pdeathsig KILL unshare --kill-child "${world[@]}" "$0" "$@" <&0 &
    trap 'kill -KILL $!; exit 130' HUP INT QUIT TERM
    wait $!
    exit
}

# Nothing is written to the real /run and /dev/shm. All hosts have the same /etc/hosts.
furnish_world()
{
    local i call
    # What the switches carry is not for a firewall of the host that they are on.
    for call in /proc/sys/net/bridge/bridge-nf-call-*; do
        [ ! -w "$call" ] || echo 0 >"$call"
    done
    mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm && mkdir "$work" || return 1
    export TMPDIR=$work
    {
        echo '127.0.0.1 localhost'
        for ((i = 0; i < hosts_max; i++)); do
            echo "$boot_net.$((i + 1)) node$i"
        done
    } >"$work/hosts"
    mount --bind "$work/hosts" /etc/hosts || return 1
    cat >"$work/agent" <<'END'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && eval "$1"' "$host" "$*"
END
    chmod +x "$work/agent"
}

# ---- hosts and switches -------------------------------------------------------------------------

# add_space NAME: a network namespace in which IPv6 has no second of its own to wait for when a link comes
# up: what is asked for a neighbour's address meanwhile is lost.
add_space()
{
    # shellcheck disable=SC2016 # expanded by the inner shell
    ip netns add "$1" && ip netns exec "$1" sh -c 'all=/proc/sys/net/ipv6/conf/default/dad_transmits
        [ ! -e "$all" ] || echo 0 >"$all"'
}

# make_hosts COUNT: with nothing but the network for mpirun.
make_hosts()
{
    local i
    [ "$1" -le "$hosts_max" ] || return 1
    hosts=()
    for ((i = 0; i < $1; i++)); do
        hosts+=("node$i")
        add_space "node$i" && ip -n "node$i" link set lo up || return 1
    done
    join "$boot_if" 1500 "$boot_net" ''
}

# Ends what still runs on hosts.
end_jobs()
{
    local host
    for host in "${hosts[@]}"; do
        # shellcheck disable=SC2046 # one word for each process
        kill -KILL $(ip netns pids "$host")
    done
} 2>/dev/null

# Takes away all hosts and networks.
remove_hosts()
{
    local space link forwarder
    end_jobs
    for forwarder in "${forwarders[@]}"; do
        kill "$forwarder"
        wait "$forwarder"
    done
    forwarders=()
    for space in $(ip netns list | cut -d ' ' -f 1); do
        ip netns del "$space"
    done
    # Ports go before their hosts' end does, whose name space is taken apart later.
    for link in $({ ip -o link show type veth; ip -o link show type bridge; } | cut -d ' ' -f 2); do
        link=${link%%[@:]*}
        ip link del "$link"
    done
    nft flush ruleset
    hosts=()
} 2>/dev/null

# join IF MTU NET4 NET6 [INDEX...]: a switch IF, with a port IF-INDEX for each of these hosts (all, if
# none is named), whose interface IF gets NET4.(INDEX + 1)/24 and NET6(INDEX + 1)/64. Either may be ''.
join()
{
    local name=$1 mtu=$2 net4=$3 net6=$4 i
    shift 4
    [ $# -gt 0 ] || set -- "${!hosts[@]}"
    ip link add "$name" mtu "$mtu" type bridge && ip link set "$name" up || return 1
    for i in "$@"; do
        plug "$name" "$i" "node$i" "$mtu" && address "node$i" "$name" $((i + 1)) "$net4" "$net6" ||
            return 1
    done
    for i in "$@"; do
        await_carrier "node$i" "$name" || return 1
    done
}

# Whether the kernel has IPv6. Without it hosts get addresses of IPv4 alone.
has_ipv6()
{
    [ -e /proc/net/if_inet6 ]
}

# plug IF PORT NAMESPACE MTU: interface IF there, at port IF-PORT of switch IF.
plug()
{
    ip link add "$1-$2" mtu "$4" type veth peer name "$1" mtu "$4" netns "$3" &&
        ip link set "$1-$2" master "$1" up && ip -n "$3" link set "$1" up
}

# address NAMESPACE IF NUMBER NET4 NET6
address()
{
    [ -z "$4" ] || ip -n "$1" addr add "$4.$3/24" dev "$2" || return 1
    [ -z "$5" ] || ! has_ipv6 || ip -n "$1" addr add "$5$3/64" dev "$2" nodad
}

# await_carrier NAMESPACE IF: an interface counts only a moment after both ends are up.
await_carrier()
{
    for _ in {1..50}; do
        grep -q 'LOWER_UP' < <(ip -n "$1" -o link show "$2") && return
        sleep 0.1
    done
    return 1
}

# add_bridge IF CIDR [INDEX...]: a network of containers, with the same address on each host, which
# leads nowhere else.
add_bridge()
{
    local name=$1 cidr=$2 i
    shift 2
    [ $# -gt 0 ] || set -- "${!hosts[@]}"
    for i in "$@"; do
        ip -n "node$i" link add "$name" type bridge &&
            ip -n "node$i" addr add "$cidr" dev "$name" &&
            ip -n "node$i" link add "in-$name" type veth peer name "at-$name" &&
            ip -n "node$i" link set "at-$name" master "$name" up &&
            ip -n "node$i" link set "in-$name" up && ip -n "node$i" link set "$name" up || return 1
    done
    for i in "$@"; do
        await_carrier "node$i" "$name" || return 1
    done
}

# add_overlay IF MTU NET4 NET6: VXLAN between all hosts; what carries it, at MTU 1500, is in namespaces
# of its own, as the host's network is to a container.
add_overlay()
{
    local name=$1 mtu=$2 i j
    ip link add under mtu 1500 type bridge && ip link set under up || return 1
    for i in "${!hosts[@]}"; do
        add_space "under$i" && plug under "$i" "under$i" 1500 &&
            address "under$i" under $((i + 1)) 10.78.0 '' &&
            ip -n "under$i" link add "$name" mtu "$mtu" type vxlan id 77 dstport 4789 dev under \
                local "10.78.0.$((i + 1))" || return 1
        for j in "${!hosts[@]}"; do
            [ "$i" = "$j" ] || bridge -n "under$i" fdb append 00:00:00:00:00:00 dev "$name" \
                dst "10.78.0.$((j + 1))" || return 1
        done
        ip -n "under$i" link set "$name" netns "node$i" &&
            address "node$i" "$name" $((i + 1)) "$3" "$4" &&
            ip -n "node$i" link set "$name" up || return 1
    done
    for i in "${!hosts[@]}"; do
        await_carrier "under$i" under && await_carrier "node$i" "$name" || return 1
    done
}

# ---- routers ------------------------------------------------------------------------------------

# add_sites LINKS: routers site0, for hosts of even number, and site1, for the odd ones, with LINKS
# links up0, up1... between; flows are spread over them by address and port (ECMP). A host's interface
# is wan, 10.79.SITE.(INDEX + 1) and fd00:79:SITE::(INDEX + 1).
add_sites()
{
    local links=$1 site link
    add_lans || return 1
    for ((link = 0; link < links; link++)); do
        ip link add "up$link" netns site0 type veth peer name "up$link" netns site1 || return 1
    done
    for site in 0 1; do
        for ((link = 0; link < links; link++)); do
            link_up $site "$link" || return 1
        done
        site_routes $site "$links" || return 1
    done
    for ((link = 0; link < links; link++)); do
        await_carrier site0 "up$link" && await_carrier site1 "up$link" || return 1
    done
}

# add_forwarded_sites OPTION...: the same, with test/net/forwarder as the link.
add_forwarded_sites()
{
    local site
    add_lans && start_forwarder site0:up0 site1:up0 "$@" || return 1
    for site in 0 1; do
        link_up $site 0 && site_routes $site 1 || return 1
    done
}

add_lans()
{
    local site i
    for site in 0 1; do
        add_space site$site && ip link add lan$site type bridge && ip link set lan$site up || return 1
        # shellcheck disable=SC2016 # expanded by the inner shell
        ip netns exec site$site sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward
            echo 1 >/proc/sys/net/ipv4/fib_multipath_hash_policy
            [ ! -e /proc/sys/net/ipv6 ] || {
                echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
                echo 1 >/proc/sys/net/ipv6/fib_multipath_hash_policy
            }' || return 1
        plug lan$site site site$site 1500 && address site$site lan$site 254 10.79.$site "fd00:79:$site::" ||
            return 1
    done
    for i in "${!hosts[@]}"; do
        site=$((i % 2))
        ip link add "wan-$i" type veth peer name wan netns "node$i" &&
            ip link set "wan-$i" master lan$site up && ip -n "node$i" link set wan up &&
            address "node$i" wan $((i + 1)) 10.79.$site "fd00:79:$site::" &&
            await_carrier "node$i" wan &&
            ip -n "node$i" route add 10.79.0.0/16 via 10.79.$site.254 &&
            ip -n "node$i" route add 10.80.0.0/16 via 10.79.$site.254 &&
            { ! has_ipv6 || ip -n "node$i" route add fd00:79::/32 via "fd00:79:$site::254"; } || return 1
    done
}

# link_up SITE LINK
link_up()
{
    address "site$1" "up$2" $(($1 + 1)) "10.80.$2" "fd00:80:$2::" &&
        ip -n "site$1" link set "up$2" up
}

# site_routes SITE LINKS: to the other one.
site_routes()
{
    local other=$((1 - $1)) link hops4=() hops6=()
    for ((link = 0; link < $2; link++)); do
        hops4+=(nexthop via "10.80.$link.$((other + 1))" dev "up$link")
        hops6+=(nexthop via "fd00:80:$link::$((other + 1))" dev "up$link")
    done
    ip -n "site$1" route add "10.79.$other.0/24" "${hops4[@]}" || return 1
    ! has_ipv6 || ip -n "site$1" -6 route add "fd00:79:$other::/64" "${hops6[@]}"
}

# add_nat: hosts of site 0 have addresses that nobody else can send to first.
add_nat()
{
    ip netns exec site0 nft -f - <<'END'
table ip nat {
    chain out {
        type nat hook postrouting priority 100
        oifname "up*" masquerade
    }
    chain through {
        type filter hook forward priority 0
        iifname "up*" ct state new drop
    }
}
END
}

# start_forwarder NAMESPACE:IF NAMESPACE:IF [OPTION...]: both ends of a link, not up yet. Its counters
# are in $work/forwarder after remove_hosts.
start_forwarder()
{
    local program
    program=$(find_program forwarder) || return 1
    "$program" "${@:3}" "$1" "$2" >"$work/forwarder" 2>&1 &
    forwarders+=($!)
    for _ in {1..50}; do
        grep -q '^forwarder: ready' "$work/forwarder" && return
        sleep 0.1
    done
    cat "$work/forwarder" >&2
    return 1
}

# add_tunnel IF MTU NET4 [OPTION...]: as of a VPN, from node0 to node1; with --loss 1 it leads nowhere.
add_tunnel()
{
    local i
    start_forwarder "node0:$1" "node1:$1" "${@:4}" || return 1
    for i in 0 1; do
        ip -n "node$i" link set "$1" mtu "$2" && address "node$i" "$1" $((i + 1)) "$3" '' &&
            ip -n "node$i" link set "$1" up && await_carrier "node$i" "$1" || return 1
    done
}

# ---- what goes wrong ----------------------------------------------------------------------------

# drop_at IF EXPRESSION...: the switch loses what matches one of these (nft), and says nothing.
drop_at()
{
    local name=$1 expression
    shift
    {
        echo "table bridge $name {"
        echo '    chain through {'
        echo '        type filter hook forward priority 0'
        for expression in "$@"; do
            echo "        iifname \"$name-*\" $expression counter drop"
        done
        printf '    }\n}\n'
    } | nft -f -
}

# dropped_at IF: how many packets that switch has lost so.
dropped_at()
{
    nft list table bridge "$1" | awk '/counter packets/ { for (i = 1; i < NF; i++)
        if ($i == "packets") n += $(i + 1) } END { print n + 0 }'
}

# vanishes HOST ADDRESS: what the host sends there brings neither an answer nor an error.
vanishes()
{
    timeout 0.5 ip netns exec "$1" bash -c ": </dev/tcp/$2/9" 2>/dev/null
    [ $? = 124 ]
}

# rules_at HOST RULE...: a firewall for what comes in (nft), first rule first.
rules_at()
{
    local host=$1
    shift
    {
        printf 'table inet rules {\n    chain in {\n        type filter hook input priority 0\n'
        printf '        %s\n' "$@"
        printf '    }\n}\n'
    } | ip netns exec "$host" nft -f -
}

# cut_link IF INDEX, and restore_link: the host's NIC does not notice.
cut_link()
{
    ip link set "$1-$2" nomaster
}

restore_link()
{
    ip link set "$1-$2" master "$1"
}

# shape NAMESPACE|'' DEVICE RATE QUEUE_BYTES: what leaves there. With '' it is a port of a switch.
shape()
{
    tc ${1:+-n "$1"} qdisc replace dev "$2" root tbf rate "$3" burst 32kb limit "$4"
}

# add_rails COUNT RATE: so many networks, rail0..., each at that rate to each host, with queues of
# 200 kB.
add_rails()
{
    local rail i
    for ((rail = 0; rail < $1; rail++)); do
        join "rail$rail" 1500 "10.9$rail.0" "fd00:9$rail::" || return 1
        for i in "${!hosts[@]}"; do
            shape '' "rail$rail-$i" "$2" 200000 || return 1
        done
    done
}

# add_ecmp COUNT RATE: so many links at that rate between two sites; each flow takes one of them.
add_ecmp()
{
    local link site
    add_sites "$1" || return 1
    for ((link = 0; link < $1; link++)); do
        for site in 0 1; do
            shape site$site "up$link" "$2" 200000 || return 1
        done
    done
}

# links_that_carried COUNT BYTES: how many of so many links between two sites have carried as much from either.
links_that_carried()
{
    local link site bytes carried=0
    for ((link = 0; link < $1; link++)); do
        bytes=0
        for site in 0 1; do
            bytes=$((bytes + $(ip netns exec site$site cat "/sys/class/net/up$link/statistics/tx_bytes")))
        done
        [ $bytes -lt "$2" ] || carried=$((carried + 1))
    done
    echo $carried
}

# single_packets IF: every packet leaves on its own; a veth hands trains over as one packet otherwise.
single_packets()
{
    local host
    for host in "${hosts[@]}"; do
        ip -n "$host" link set "$1" gso_max_segs 1 || return 1
    done
}

# ---- jobs ---------------------------------------------------------------------------------------

# run_mpi BTL SECONDS PER_HOST [MPIRUN OPTION...] PROGRAM [ARGUMENT...]: over all hosts. BTL may be a list;
# its first uses all interfaces but mpirun's own, unless options say which.
run_mpi()
{
    local btl=$1 limit=$2 per_host=$3 count=$((${#hosts[@]} * $3)) places unused=$boot_if options=()
    shift 3
    set_mca_options "$btl"
    # diwarp takes lo within a host only.
    [ "$btl" = tcp ] && unused=lo,$boot_if
    [[ " $* " == *" btl_${btl%%,*}_if_"* ]] ||
        options+=(--mca "btl_${btl%%,*}_if_exclude" "$unused")
    [ "$count" -gt "$(cores)" ] && options+=(--mca mpi_yield_when_idle 1)
    places=$(printf ",%s:$per_host" "${hosts[@]}")
    # Bash's own words about jobs that are killed are no part of the job's.
    {
        # shellcheck disable=SC2016 # expanded by the inner shell
        timeout -k 10 "$limit" ip netns exec "${hosts[0]}" unshare --uts \
            sh -c 'hostname "$0" && exec "$@"' "${hosts[0]}" \
            "$mpirun" -np "$count" --host "${places#,}" --bind-to none \
            --mca plm_rsh_agent "$work/agent" --mca plm_rsh_no_tree_spawn 1 \
            --mca oob_tcp_if_include "$boot_net.0/24" "${mca_options[@]}" "${options[@]}" "$@" 2>&3 3>&-
    } 3>&2 2>/dev/null
}
