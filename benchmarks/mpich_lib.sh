# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced: programs built for Debian's MPICH, how they are run over UCX, and what they say of themselves.
# Expects `top`, test/net/hosts.sh, `front` (diwarp-verbs) and `seconds` (longest time of a run).
# shellcheck disable=SC2154 # set by those

# mpich_compile PROGRAM SOURCE... [OPTION...]: into the current folder, from the source's, unless it is newer.
mpich_compile()
{
    local program=$1 source
    shift
    for source in "$@"; do
        [ "${source%.c}" = "$source" ] || [ "$program" -nt "$top/$source" ] || break
        source=
    done
    [ -n "$source" ] || return 0
    (cd "$top" && mpicc.mpich -O2 -w -fopenmp-simd -std=gnu11 -D_GNU_SOURCE -DNPB_VERSION='"diwarp"' \
        -I. "$@" -o "$OLDPWD/$program" -lm -lpthread)
}

# mpich_build FOLDER: the applications, and HYPRE for one of them, which is left out where HYPRE cannot be
# fetched.
mpich_build()
{
    local npb=benchmarks/npb status=0
    local common=$npb/npb_common.c time='benchmarks/mpi_time.c benchmarks/mpi_time_requests.c'
    "$top/config/hypre_for_mpich" "$1/hypre" >"$1.log" 2>&1 || status=$?
    case $status in
    0) ;;
    77)
        echo "left out: SMG2000: no source of HYPRE: $(grep -m 1 "^E: " "$1.log")"
        [ ! "${CI:-}" ] || return 1
        ;;
    *) cat "$1.log"; return 1 ;;
    esac
    # shellcheck disable=SC2086,SC2046 # words are meant
    (cd "$1" && mpich_compile npb_cg $npb/cg.c $npb/cg_grid.c $npb/cg_matrix.c $common &&
        mpich_compile npb_mg $(sources $npb/mg) $common &&
        mpich_compile npb_lu $(sources $npb/lu) $common &&
        mpich_compile latency_bandwidth benchmarks/latency_bandwidth.c benchmarks/turns.c &&
        mpich_compile all_to_all benchmarks/all_to_all.c &&
        mpich_compile mpi_memory.so benchmarks/mpi_memory.c benchmarks/memory_sample.c \
            benchmarks/tool_output.c common/llp/socket.c -shared -fPIC &&
        { [ $status -ne 0 ] || mpich_compile smg2000 benchmarks/smg2000.c benchmarks/smg_problem.c $time \
            -I"$1"/hypre/{.,utilities,krylov,multivector,struct_mv,struct_ls} "$1/hypre/libHYPRE.a"; })
}

# Of a program of several files.
sources()
{
    (cd "$top" && echo "$1".c "$1"_*.c)
}

# run_mpich TRANSPORT RANKS PROGRAM [ARGUMENT...]: ranks on node0 that reach each other by this transport of
# UCX's, and `preload` before it.
run_mpich()
{
    local libraries=${preload-}
    [ "$1" = tcp ] || libraries="$("$front" path)${libraries:+ $libraries}"
    timeout -k 10 "$seconds" ip netns exec node0 mpiexec.mpich -n "$2" \
        -env LD_PRELOAD "$libraries" -env UCX_TLS "$1,self" "${@:3}" </dev/null
}

# lose_at HOST PERCENT: of the datagrams of diwarp's verbs; lost_at HOST: how many.
lose_at()
{
    rules_at "$1" "udp dport 20480-21503 numgen random mod 100 < $2 counter drop"
}

lost_at()
{
    ip netns exec "$1" nft list ruleset | sed -n 's/.*counter packets \([0-9]*\).*/\1/p'
}

# ---- what is wrong with what a program left in $work/output; nothing: it is right -----------------

ended()
{
    case $1 in
    0) ;;
    124 | 137) echo "no end after $seconds s" ;;
    *) echo "exit status $1" ;;
    esac
}

# npb_complaint STATUS CLASS RANKS
npb_complaint()
{
    local key
    ended "$1"
    for key in "Verification:SUCCESSFUL" "Class:$2" "Total processes:$3"; do
        grep -qE "^ ${key%:*} *= *${key#*:}\$" "$work/output" || echo "no ${key/:/ }"
    done | head -n 1
}

# smg_complaint STATUS CLASS RANKS: it converges, to the last digit as the first time.
smg_complaint()
{
    local residual first=$work/residual.$2.$3
    residual=$(value_of residual smg2000: <"$work/output")
    [ -e "$first" ] || echo "$residual" >"$first"
    ended "$1"
    if [ "$(value_of converged smg2000: <"$work/output")" != 1 ]; then
        echo 'has not converged'
    elif [ "$residual" != "$(cat "$first")" ]; then
        echo "the residual is $residual, not $(cat "$first")"
    fi
}

# memory_complaint STATUS RANKS
memory_complaint()
{
    ended "$1"
    [ "$(grep -c "^mpi_memory: rank=[0-9]* ranks=$2 point=finalize " "$work/output")" = "$2" ] ||
        echo 'not every rank told its memory'
}

# ---- figures, as rows of a CSV file ---------------------------------------------------------------

# speed_rows FIRST_COLUMNS
speed_rows()
{
    awk -v head="$1" '/^(latency|stream) / {
        for (i = 2; i <= NF; i++)
            value[substr($i, 1, index($i, "=") - 1)] = substr($i, index($i, "=") + 1)
        figure = $1 == "latency" ? "us" : "MBps"
        print head "," figure "," value["bytes"] "," value[figure]
    }'
}

# memory_rows FIRST_COLUMNS: MiB
memory_rows()
{
    awk -v head="$1" '/^mpi_memory: .* point=finalize / {
        for (i = 2; i <= NF; i++) {
            name = substr($i, 1, index($i, "=") - 1)
            value[name] = substr($i, index($i, "=") + 1)
        }
        ranks = value["ranks"]
        private += value["private_bytes"]
        sockets += value["socket_slab_bytes"] + value["socket_queue_bytes"]
        count++
    }
    END {
        if (!count)
            exit
        printf "%s,private_MiB,%d,%.2f\n", head, ranks, private / count / 1048576
        printf "%s,sockets_MiB,%d,%.2f\n", head, ranks, sockets / count / 1048576
    }'
}

# summarize FOLDER: medians of its rounds.csv, printed and in summary.csv. Ratios are UCX tcp's figure to
# the transport's, of memory rc_v' to it, each above 1 where the transport is better.
summarize()
{
    local transport quantity at value base ratio
    echo 'transport,quantity,bytes_or_ranks,median,ratio' >"$1/summary.csv"
    tail -n +2 "$1/rounds.csv" | cut -d , -f 2-4 | sort -u -t , -k 2,2 -k 3,3n -k 1,1 |
        while IFS=, read -r transport quantity at; do
            value=$(median_of "$1" "$transport" "$quantity" "$at")
            base=$(median_of "$1" "$([[ $quantity = *_MiB ]] && echo rc_v || echo tcp)" "$quantity" "$at")
            ratio=$(awk -v v="$value" -v b="$base" -v up="$([ "$quantity" = MBps ] && echo 1)" \
                'BEGIN { if (v > 0 && b > 0) printf "%.2f", up ? v / b : b / v }')
            echo "$transport,$quantity,$at,$value,$ratio"
        done >>"$1/summary.csv"
    [ "$(wc -l <"$1/summary.csv")" = 1 ] || column -t -s , "$1/summary.csv"
}

# median_of FOLDER TRANSPORT QUANTITY AT
median_of()
{
    awk -F , -v t="$2" -v q="$3" -v at="$4" '$2 == t && $3 == q && $4 == at { print $5 }' "$1/rounds.csv" |
        median
}
