/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random all-to-all traffic from a seed: every rank draws the same list of messages, posts its own
 * part in an order of its own, completes in any order, and the hashes of what left and what came
 * must balance. A failing seed replays with --seed.
 */
#include "test/mpi/mpi_payload.h"
#include "test/mpi/mpi_test.h"

#define SIZE_MAX_LOG2 21 /* 2 MiB */
#define WAVE_BYTES    (48u * 1024 * 1024)
#define WAVE_MESSAGES 256

struct message {
    int src, dst, tag;
    uint64_t seq;
    size_t size;
};

/* One post of this rank: of wave message `index`, as its sender or as its receiver. */
struct post {
    int index;
    bool receive;
};

struct wave {
    struct message messages[WAVE_MESSAGES];
    int count;
    struct post posts[2 * WAVE_MESSAGES]; /* a message to oneself is posted twice */
    struct mt_buf bufs[2 * WAVE_MESSAGES];
    MPI_Request requests[2 * WAVE_MESSAGES];
    int posted;
};

static uint64_t sent_hash, received_hash, total_bytes;

/* Log-uniform, so that each protocol gets its share. */
static size_t random_size(uint64_t *state)
{
    size_t bits = mt_random_below(state, SIZE_MAX_LOG2 + 1);
    size_t half = (size_t)1 << (bits ? bits - 1 : 0);

    return bits == 0 ? 0 : half + mt_random_below(state, half);
}

/* Same draws on every rank. Returns how many messages the wave holds. */
static int wave_draw(struct wave *wave, uint64_t *state, uint64_t first_seq, long left)
{
    size_t bytes = 0;

    wave->count = 0;
    while (wave->count < WAVE_MESSAGES && wave->count < left && bytes < WAVE_BYTES) {
        struct message *m = &wave->messages[wave->count];

        m->src = (int)mt_random_below(state, (size_t)mt.size);
        m->dst = (int)mt_random_below(state, (size_t)mt.size);
        m->size = random_size(state);
        m->seq = first_seq + (uint64_t)wave->count;
        m->tag = wave->count++;
        bytes += m->size;
    }
    return wave->count;
}

static void wave_shuffle(struct wave *wave, uint64_t *own_state)
{
    wave->posted = 0;
    for (int i = 0; i < wave->count; i++) {
        if (wave->messages[i].src == mt.rank)
            wave->posts[wave->posted++] = (struct post){i, false};
        if (wave->messages[i].dst == mt.rank)
            wave->posts[wave->posted++] = (struct post){i, true};
    }
    for (int i = wave->posted - 1; i > 0; i--) {
        int k = (int)mt_random_below(own_state, (size_t)i + 1);
        struct post swapped = wave->posts[i];

        wave->posts[i] = wave->posts[k];
        wave->posts[k] = swapped;
    }
}

static struct mt_key message_key(const struct message *m)
{
    return (struct mt_key){m->src, m->dst, m->tag, m->seq};
}

static void wave_post(struct wave *wave, int slot)
{
    const struct message *m = &wave->messages[wave->posts[slot].index];
    struct mt_buf *buf = &wave->bufs[slot];

    mt_buf_init(buf, m->size);
    mt_buf_arm(buf, m->size, (size_t)(m->seq % 16));
    if (wave->posts[slot].receive) {
        MPI_Irecv(buf->data, mt_count(m->size), MPI_BYTE, m->src, m->tag, MPI_COMM_WORLD,
                  &wave->requests[slot]);
        return;
    }
    mt_fill(buf->data, m->size, message_key(m));
    sent_hash += mt_hash(buf->data, m->size) ^ m->seq;
    MPI_Isend(buf->data, mt_count(m->size), MPI_BYTE, m->dst, m->tag, MPI_COMM_WORLD,
              &wave->requests[slot]);
}

static void wave_check(struct wave *wave, int slot, const MPI_Status *status)
{
    const struct message *m = &wave->messages[wave->posts[slot].index];
    struct mt_buf *buf = &wave->bufs[slot];

    if (wave->posts[slot].receive) {
        mt_check_status(status, m->src, m->tag, m->size, "random");
        received_hash += mt_hash(buf->data, m->size) ^ m->seq;
        total_bytes += m->size;
    }
    mt_buf_verify(buf, message_key(m), wave->posts[slot].receive ? "received" : "send buffer");
    memset(buf->data, 0xa5, m->size); /* nobody reads it any more */
    mt_buf_fini(buf);
}

static void wave_run(struct wave *wave, uint64_t *own_state)
{
    wave_shuffle(wave, own_state);
    for (int i = 0; i < wave->posted; i++) {
        wave_post(wave, i);
        if (mt_random_below(own_state, 16) == 0) {
            int flag;

            MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        }
    }
    for (int i = 0; i < wave->posted; i++) {
        int slot = -1;
        MPI_Status status;

        MPI_Waitany(wave->posted, wave->requests, &slot, &status);
        MT_CHECK(slot >= 0 && slot < wave->posted, "Waitany gave index %d", slot);
        wave_check(wave, slot, &status);
    }
}

int main(int argc, char **argv)
{
    static struct wave wave;
    uint64_t state, own_state, sums[3], all[3], seq = 0;
    long messages;

    mt_start(argc, argv, "random_traffic", MPI_THREAD_SINGLE);
    messages = mt.messages ? mt.messages : (mt.quick ? 2000 : 8000);
    state = mt.seed * 0x632be59bd9b4e019u + 1;
    own_state = state ^ mt_mix((uint64_t)mt.rank + 1);
    while ((long)seq < messages) {
        mt_phase("seed %llu, message %llu of %ld", (unsigned long long)mt.seed,
                 (unsigned long long)seq, messages);
        wave_draw(&wave, &state, seq, messages - (long)seq);
        wave_run(&wave, &own_state);
        seq += (uint64_t)wave.count;
    }
    sums[0] = sent_hash;
    sums[1] = received_hash;
    sums[2] = total_bytes;
    mt_phase("seed %llu, hashes", (unsigned long long)mt.seed);
    MPI_Allreduce(sums, all, 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MT_CHECK(all[0] == all[1], "seed %llu: sent hash %llx, received hash %llx",
             (unsigned long long)mt.seed, (unsigned long long)all[0], (unsigned long long)all[1]);
    mt_finish("seed %llu, %ld messages, %.1f MB", (unsigned long long)mt.seed, messages,
              (double)all[2] / 1e6);
    return 0;
}
