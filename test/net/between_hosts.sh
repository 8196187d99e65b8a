# SPDX-License-Identifier: BSD-3-Clause
# Sourced by two_hosts: what is put between the two, or into their way. Needs hosts, router, btl.
# shellcheck shell=bash
# shellcheck disable=SC2154 # set by who sources this

# ---- loss ---------------------------------------------------------------------------------------

# diwarp travels in UDP; of the tcp BTL, TCP is dropped (mpirun's own few packets with it).
protocol=udp
[ "$btl" = tcp ] && protocol=tcp

# set_loss PERMILLE VERDICT: so many packets of 1000 get that verdict.
set_loss()
{
    local host
    for host in "${hosts[@]}"; do
        ip netns exec "$host" nft -f - <<END || return 1
table inet loss {
    chain in {
        type filter hook input priority 0; policy accept;
        iifname "eth0" meta l4proto $protocol counter
        iifname "eth0" meta l4proto $protocol numgen random mod 1000 < $1 counter $2
    }
}
END
    done
}

clear_loss()
{
    local host
    for host in "${hosts[@]}"; do
        ip netns exec "$host" nft delete table inet loss
    done
}

# Prints "SEEN DROPPED" of host $1.
loss_counts()
{
    ip netns exec "$1" nft list chain inet loss in | awk '
        match($0, /counter packets [0-9]+/) {
            n[++count] = substr($0, RSTART + 16, RLENGTH - 16) + 0
        }
        END { print n[1] + 0, n[2] + 0 }'
}

# True when packets were dropped in both directions; prints how many.
loss_happened()
{
    local host seen dropped all=0
    for host in "${hosts[@]}"; do
        read -r seen dropped <<<"$(loss_counts "$host")"
        printf ', into %s %d of %d dropped' "$host" "$dropped" "$seen"
        [ "$dropped" -gt 0 ] || all=1
    done
    return $all
}

# ---- a firewall ---------------------------------------------------------------------------------

# set_firewall VERDICT: what is no answer gets that verdict, as usual on desktops and in clouds. The
# ports that both sides send to are open; one that either sends from only is not.
set_firewall()
{
    local host
    for host in "${hosts[@]}"; do
        ip netns exec "$host" nft -f - <<END || return 1
table inet firewall {
    chain in {
        type filter hook input priority 0; policy accept;
        ct state established,related accept
        iifname "eth0" meta l4proto udp counter $1
    }
}
END
    done
}

clear_firewall()
{
    local host
    for host in "${hosts[@]}"; do
        ip netns exec "$host" nft delete table inet firewall
    done
}

# ---- bridges ------------------------------------------------------------------------------------

# Networks of containers, the same on both hosts, as many as diwarp uses interfaces; and one between
# the hosts, made last.
make_bridges()
{
    local i host
    for host in "${hosts[@]}"; do
        for i in {1..8}; do
            ip -n "$host" link add "br$i" type bridge || return 1
            ip -n "$host" addr add "172.$((16 + i)).0.1/16" dev "br$i" || return 1
            ip -n "$host" link add "in$i" type veth peer name "port$i" || return 1
            ip -n "$host" link set "port$i" master "br$i" up || return 1
            ip -n "$host" link set "in$i" up || return 1
            ip -n "$host" link set "br$i" up || return 1
        done
    done
    ip link add late0 netns "${hosts[0]}" type veth peer name late0 netns "${hosts[1]}" || return 1
    for i in 0 1; do
        ip -n "${hosts[i]}" addr add "10.78.0.$((i + 1))/24" dev late0 || return 1
        ip -n "${hosts[i]}" link set late0 up || return 1
    done
}

remove_bridges()
{
    local i host
    for host in "${hosts[@]}"; do
        for i in {1..8}; do
            ip -n "$host" link del "in$i"
            ip -n "$host" link del "br$i"
        done
    done 2>/dev/null
    ip -n "${hosts[0]}" link del late0 2>/dev/null
}

# ---- a router -----------------------------------------------------------------------------------

make_router()
{
    local i
    ip netns add "$router" || return 1
    ip netns exec "$router" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward' || return 1
    for i in 0 1; do
        ip link add eth1 netns "${hosts[i]}" type veth peer name "way$i" netns "$router" || return 1
        ip -n "$router" addr add "10.79.$i.254/24" dev "way$i" || return 1
        ip -n "$router" link set "way$i" up || return 1
        ip -n "${hosts[i]}" addr add "10.79.$i.1/24" dev eth1 || return 1
        ip -n "${hosts[i]}" link set eth1 mtu 1500 up || return 1
        ip -n "${hosts[i]}" route add "10.79.$((1 - i)).0/24" via "10.79.$i.254" || return 1
    done
}

remove_router()
{
    local host
    for host in "${hosts[@]}"; do
        ip -n "$host" link del eth1
    done 2>/dev/null
    ip netns del "$router" 2>/dev/null
}

# set_narrow MTU: in both directions.
set_narrow()
{
    local i
    for i in 0 1; do
        ip -n "$router" route replace "10.79.$i.0/24" dev "way$i" mtu lock "$1" || return 1
    done
}

# ip_count NAME HOST...: sum of a counter of /proc/net/snmp.
ip_count()
{
    local host name=$1
    shift
    for host in "$@"; do
        ip netns exec "$host" cat /proc/net/snmp
    done | awk -v name="$name" '
        $1 != "Ip:" { next }
        $2 == "Forwarding" { for (i = 1; i <= NF; i++) if ($i == name) column = i; next }
        { n += $column }
        END { print n + 0 }'
}

# How many the hosts have sent so far.
fragments()
{
    ip_count FragCreates "${hosts[@]}"
}

# How many packets the router has passed on so far, or trains of them.
forwarded()
{
    ip_count ForwDatagrams "$router"
}

# 100 Mb/s and 50 packets of 1500, in both directions.
set_slow()
{
    local i
    for i in 0 1; do
        tc -n "$router" qdisc replace dev "way$i" root tbf rate 100mbit burst 5kb limit 75000 ||
            return 1
    done
}

clear_slow()
{
    local i
    for i in 0 1; do
        tc -n "$router" qdisc del dev "way$i" root
    done
}

# Prints "PASSED DROPPED" of both directions.
slow_counts()
{
    local i
    for i in 0 1; do
        tc -n "$router" -s qdisc show dev "way$i"
    done | sed -n 's/.* bytes \([0-9]*\) pkt (dropped \([0-9]*\),.*/\1 \2/p' |
        awk '{ passed += $1; dropped += $2 } END { print passed + 0, dropped + 0 }'
}
