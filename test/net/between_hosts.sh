# SPDX-License-Identifier: BSD-3-Clause
# Sourced by two_hosts: what is put between the two, or into their way. Needs hosts.sh and btl.
# shellcheck shell=bash
# shellcheck disable=SC2154 # set by who sources this

# ---- loss ---------------------------------------------------------------------------------------

# set_loss PERMILLE VERDICT [PROTOCOL]: so many packets of 1000 of that protocol, by default udp, or tcp for
# the tcp BTL, get that verdict.
set_loss()
{
    local host protocol=${3:-udp}
    [ "$btl" = tcp ] && protocol=tcp
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

# ---- bridges and routers ------------------------------------------------------------------------

# Networks of containers, as many as diwarp uses interfaces; and one between the hosts, made last.
make_bridges()
{
    local i
    for i in {1..8}; do
        add_bridge "br$i" "172.$((16 + i)).0.1/16" || return 1
    done
    join late0 1500 10.78.0 ''
}

# set_narrow MTU: of the way between two sites, in both directions.
set_narrow()
{
    local i
    for i in 0 1; do
        ip -n site$i route replace "10.79.$((1 - i)).0/24" via "10.80.0.$((2 - i))" dev up0 \
            mtu lock "$1" || return 1
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

# How many packets, or trains of them, a router has passed on so far.
forwarded()
{
    ip_count ForwDatagrams site0
}

# 100 Mb/s and 50 packets of 1500, in both directions.
set_slow()
{
    local i
    for i in 0 1; do
        shape site$i up0 100mbit 75000 || return 1
    done
}

clear_slow()
{
    local i
    for i in 0 1; do
        tc -n site$i qdisc del dev up0 root
    done
}

# Prints "PASSED DROPPED" of both directions.
slow_counts()
{
    local i
    for i in 0 1; do
        tc -n site$i -s qdisc show dev up0
    done | sed -n 's/.* bytes \([0-9]*\) pkt (dropped \([0-9]*\),.*/\1 \2/p' |
        awk '{ passed += $1; dropped += $2 } END { print passed + 0, dropped + 0 }'
}
