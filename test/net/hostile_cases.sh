# SPDX-License-Identifier: BSD-3-Clause
# Sourced by faults: who comes uninvited, while a job runs. Each function case_* is a case.
# shellcheck shell=bash
# shellcheck disable=SC2154 # set by who sources this

# Where the ranks are, one on each host: a port that the kernel gives to nobody who asks for any.
port=30100
ports=(--mca btl_diwarp_port_min $port --mca btl_diwarp_port_max $port)
target=$subnet.1

# With options.
start_target()
{
    start_steady '1 1' "$@" "${ports[@]}"
}

# $1: "stranger", or the number of a host; then what `hostile' is to do. Sets `sent'.
disturb()
{
    local where=$1
    shift
    on "$where" "$hostile" "$@" >"$work/hostile" 2>&1 || die "$(cat "$work/hostile")"
    sent=$(sed -n 's/^hostile: \([0-9]*\) sent$/\1/p' "$work/hostile")
}

# expect_drops NAME CAUSE...: the job ends well, and has dropped something for each cause.
expect_drops()
{
    local name=$1 cause bad=0
    shift
    stop_steady
    end_job
    [ "$status" = 0 ] && grep -aq '^PASS ' "$work/output" || bad=1
    for cause in "$@"; do
        [ "$(dropped "$cause")" -gt 0 ] || bad=1
    done
    verdict "$name" $bad \
        "$(grep -a '^PASS ' "$work/output" || echo "exit status $status"), $sent sent"
}

case_garbage()
{
    start_target
    disturb stranger flood "$target" $port 5000 2
    expect_drops 'garbage' drop_short drop_version drop_token drop_header
}

case_guessed_token()
{
    start_target
    disturb stranger guess "$target" $port 5000 2
    expect_drops 'guessed tokens' drop_token
}

# By one on the way, who sees all: this job's; then, with another job on the same ports, that one's.
case_replay()
{
    ip -n "${hosts[0]}" link set eth0 gso_max_segs 1
    ip -n "${hosts[1]}" link set eth0 gso_max_segs 1
    start_target
    disturb 0 replay eth0 "$work/seen" 3
    expect_drops 'replayed datagrams' rx_dup_datagrams drop_stale_record
    start_target
    disturb stranger again "$target" $port 5000 2 "$work/seen"
    expect_drops "an older job's datagrams" drop_token
    [ "$(dropped drop_token)" -gt 1000 ] || verdict "an older job's datagrams" 1 'few have come'
}

# The same where datagrams have a tag, and by one who changes what he has seen.
case_sealed()
{
    local auth
    for auth in gmac aes-gcm; do
        start_target --mca btl_diwarp_auth $auth
        disturb 0 replay eth0 "$work/seen" 2
        expect_drops "replayed datagrams, $auth" drop_replay
        start_target --mca btl_diwarp_auth $auth
        disturb 0 alter eth0 "$work/seen" 2
        expect_drops "altered datagrams, $auth" drop_auth
    done
}

# $1: udp or tcp; $2: transport; then what is dropped
scanned()
{
    local protocol=$1 transport=$2
    shift 2
    start_target --mca btl_diwarp_transport "$transport"
    disturb stranger scan "$target" "$protocol"
    expect_drops "$transport, $protocol ports scanned" "$@"
}

case_scan()
{
    scanned udp rd drop_short
    scanned tcp rc rc_bad_startup
    # Where diwarp has no port: it is mpirun that is called there.
    if [ "$long" ]; then
        scanned tcp rd
        scanned udp rc
    fi
}

# ---- by hand ------------------------------------------------------------------------------------

# Sets `rate', MB/s of a stream of 1 MiB messages from host 0 to host 1.
stream()
{
    start_job '1 1' "${ports[@]}" -- "$(find_program latency_bandwidth)" -l none -m none \
        -s 1048576 -d uni -r 10
    end_job
    rate=$(value_of MBps stream <"$work/output")
    [ "$rate" ] || die "no figure: $(cat "$work/output")"
}

# stream_beside_flood IP: the same while the stranger sends garbage there; sets `garbage', datagrams
# a second, too. He is before the ranks where cores are few, as on a machine of his own; and a tenth
# faster than is asked for, because his start counts.
stream_beside_flood()
{
    local flood began_ms
    began_ms=$(now_ms)
    # not by on(), a shell that would take the signal
    ip netns exec "$stranger" nice -n -10 "$hostile" flood "$1" $port 110000 "$case_seconds" \
        >"$work/hostile" &
    flood=$!
    stream
    kill $flood
    wait $flood
    sent=$(sed -n 's/^hostile: \([0-9]*\) sent$/\1/p' "$work/hostile")
    [ "$sent" ] || die "no garbage: $(cat "$work/hostile")"
    garbage=$((sent * 1000 / $(since_ms "$began_ms")))
}

# The stranger takes a core in both turns: in one he sends to himself.
measure_goodput()
{
    local round alone
    for round in 1 2 3 4 5; do
        stream_beside_flood "$subnet.3"
        alone=$rate
        stream_beside_flood "$subnet.2"
        echo "round $round: $alone MB/s, $rate MB/s beside $garbage datagrams of garbage a second"
        awk "BEGIN { print $rate / $alone }" >>"$work/ratios"
    done
    printf 'goodput under garbage: %.2f\n' "$(median <"$work/ratios")"
}
