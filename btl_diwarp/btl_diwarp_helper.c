/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The helper thread: runs the RNIC while the application is away from MPI's progress, in a long
 * computation or blocked in the run-time system (MPI_Comm_spawn waits there for its children). What
 * the application has sent must leave, and be repeated when lost, all the same: a peer may need it
 * to come to the point this process waits for. And a large transfer goes on behind the computation.
 *
 * It looks now and then whether the application polls or posts, and runs the RNIC once it does not.
 * When that serves a peer (diwarp_cq_served()) it takes over: it sleeps in the kernel until
 * datagrams come, as long as they are worth it, for each wake costs the computation. What merely
 * came may wait for the next look. Whoever polls has the RNIC: the helper never waits for it and is
 * never waited for.
 *
 * Where the PML is protected against a second thread (helper_calls_back) it hands completions on as
 * progress does, so that messages are matched, too; else these wait for the application.
 */
#define _GNU_SOURCE /* ppoll, sched_getcpu */
#include "btl_diwarp/btl_diwarp.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/* An application that waits in MPI polls every few hundred nanoseconds, and one that sends posts a
 * message in less than this. On shared cores it does so only when it is its turn, and every look
 * takes time from another rank; but that one may wait for this one's data. */
#define AWAY_NS 50000u
/* With the square of the ranks on a core: each looks, and takes time from all others. */
#define TURNS_NS         500000u
#define TURNS_LONGEST_NS 20000000u

/* A look costs the application 4 microseconds, on a virtual machine 25: it must be rare where it is
 * to no purpose, and soon where the helper has served peers of late. Each look that brings nothing
 * doubles the time to the next. On shared cores there is one in all turns. */
struct pace {
    uint64_t shortest_ns, longest_ns;
    unsigned worth_most; /* absences in a row that may be of no use before that is forgotten */
};
static const struct pace pace_auto = {
    .shortest_ns = 500000, .longest_ns = 4000000, .worth_most = 2};
static const struct pace pace_on = {.shortest_ns = 50000, .longest_ns = 1000000, .worth_most = 8};

/* Wakes in a row that serve nobody, before it leaves what comes to the next look. On shared cores
 * others wait longer for that than for this one's turn. */
#define IDLE_WAKES_MOST   2
#define IDLE_WAKES_SHARED 8
/* Over RC, the most runs between two that ask which of many streams are readable
 * (WAIT_EVERY_ALONE in rc_run.c). */
#define EMPTY_RUNS_MOST 32

/* Of one sleep while it has taken over. The application wakes it when it polls: what was read is
 * not there to wake the helper. It looks without a fence, so a wake may, rarely, be missed; what
 * it posts without a poll wakes nobody: then this is how long it takes. */
#define SLEEP_LONGEST_NS 5000000u
/* A full socket buffer makes the RNIC due at once for as long as it is full. */
#define SLEEP_SHORTEST_NS 100000u

struct helper {
    struct mca_btl_diwarp_module *module;
    bool wanted; /* the user asked for it */
    const struct pace *pace;
    uint64_t look_ns;      /* until the next look */
    unsigned worth;        /* 0: it was of no use lately */
    unsigned long looked;  /* polls, at the last look */
    unsigned long absence; /* polls, when it last ran the RNIC */
};

/* What one run of the RNIC did. */
struct run {
    bool more;   /* it brought something, or can send more: another may, too */
    bool served; /* a peer */
};

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}

static bool stopping(const struct mca_btl_diwarp_module *module)
{
    return __atomic_load_n(&module->helper_stop, __ATOMIC_ACQUIRE);
}

static unsigned long polls_of(const struct mca_btl_diwarp_module *module)
{
    return __atomic_load_n(&module->polls, __ATOMIC_RELAXED);
}

static bool still_away(const struct mca_btl_diwarp_module *module, unsigned long polls)
{
    return polls_of(module) == polls && !stopping(module);
}

/* Of all ranks on a core of this process, about; 0: it has its cores to itself. */
static uint64_t turns_ns(const struct mca_btl_diwarp_module *module)
{
    unsigned turns = mca_btl_diwarp_cores_turns(module);
    uint64_t ns;

    if (1 == turns) {
        return 0;
    }
    ns = (uint64_t)turns * turns * TURNS_NS;
    return ns < TURNS_LONGEST_NS ? ns : TURNS_LONGEST_NS;
}

static bool away(const struct mca_btl_diwarp_module *module)
{
    uint64_t shared_ns = turns_ns(module);

    return !__atomic_load_n(&module->polling, __ATOMIC_RELAXED) &&
           diwarp_cq_quiet_ns(module->cq) >= (shared_ns > 0 ? shared_ns : AWAY_NS);
}

/* ob1 registers the FIN last, when it has added the peers. */
static bool pml_takes_messages(const struct mca_btl_diwarp_module *module)
{
    const mca_btl_active_message_callback_t *fin =
        &mca_btl_base_active_message_trigger[MCA_BTL_DIWARP_TAG_FIN];

    return __atomic_load_n(&module->endpoints, __ATOMIC_RELAXED) > 0 &&
           NULL != __atomic_load_n(&fin->cbfunc, __ATOMIC_ACQUIRE);
}

/* One run, unless the application came back. */
static struct run run_once(struct helper *helper)
{
    struct mca_btl_diwarp_module *module = helper->module;
    struct run run = {.more = false};
    uint64_t served;
    int handed = 0;

    if (!mca_btl_diwarp_polling_begin(module)) {
        return run;
    }
    __atomic_store_n(&module->helper_cpu, sched_getcpu(), __ATOMIC_RELAXED);
    served = diwarp_cq_served(module->cq);
    if (module->helper_calls_back && pml_takes_messages(module)) {
        handed = mca_btl_diwarp_poll_and_call_back(module);
    } else {
        (void)diwarp_run_cq(module->cq);
    }
    run.more = handed > 0 || diwarp_cq_busy(module->cq);
    run.served = diwarp_cq_served(module->cq) != served || (helper->wanted && handed > 0);
    __atomic_store_n(&module->helper_cpu, -1, __ATOMIC_RELAXED);
    mca_btl_diwarp_polling_end(module);
    return run;
}

static void take_event(struct mca_btl_diwarp_module *module)
{
    uint64_t wakes;

    (void)!read(module->helper_event, &wakes, sizeof(wakes));
}

/* Until a datagram comes, a timer of the RNIC is due, or somebody wakes it. */
static void sleep_until_due(struct mca_btl_diwarp_module *module, unsigned long polls)
{
    struct pollfd fds[] = {{.fd = module->fd, .events = POLLIN},
                           {.fd = module->helper_event, .events = POLLIN}};
    uint64_t idle_ns = diwarp_cq_idle_ns(module->cq);
    struct timespec period;

    if (diwarp_rc_is_full(module->cq)) {
        fds[0].fd = -1; /* ready all the time, to no purpose, until the application polls */
    }
    if (idle_ns < SLEEP_SHORTEST_NS) {
        idle_ns = SLEEP_SHORTEST_NS;
    }
    period = timespec_of(idle_ns < SLEEP_LONGEST_NS ? idle_ns : SLEEP_LONGEST_NS);
    __atomic_store_n(&module->helper_asleep, true, __ATOMIC_SEQ_CST);
    if (still_away(module, polls)) {
        (void)ppoll(fds, 2, &period, NULL);
    }
    __atomic_store_n(&module->helper_asleep, false, __ATOMIC_RELAXED);
    if (fds[1].revents & POLLIN) {
        take_event(module);
    }
}

static bool readable(struct mca_btl_diwarp_module *module)
{
    struct pollfd pollfd = {.fd = module->fd, .events = POLLIN};

    return !diwarp_rc_is_full(module->cq) && poll(&pollfd, 1, 0) > 0;
}

/* Until nothing more comes. True: it served a peer. */
static bool run_until_empty(struct helper *helper, unsigned long polls)
{
    unsigned empty_runs = 0;
    bool served = false;

    while (still_away(helper->module, polls)) {
        struct run run = run_once(helper);

        served |= run.served;
        if (run.more) {
            empty_runs = 0;
        } else if (++empty_runs >= EMPTY_RUNS_MOST || !readable(helper->module)) {
            break;
        }
    }
    return served;
}

/* Remembers whether the absence that began after so many polls was of use. */
static void judge(struct helper *helper, unsigned long polls, bool useful)
{
    if (useful) {
        helper->worth = helper->pace->worth_most;
    } else if (polls != helper->absence && helper->worth > 0) {
        helper->worth--;
    }
    /* The next absence may come soon. */
    if (useful || (helper->worth > 0 && !still_away(helper->module, polls))) {
        helper->look_ns = helper->pace->shortest_ns;
    }
    helper->absence = polls;
}

/* Runs the RNIC until the application polls again, or it is of no use. */
static void take_over(struct helper *helper, unsigned long polls)
{
    struct mca_btl_diwarp_module *module = helper->module;
    const unsigned idle_most = turns_ns(module) > 0 ? IDLE_WAKES_SHARED : IDLE_WAKES_MOST;
    bool useful = run_until_empty(helper, polls);
    unsigned idle_wakes = useful ? 0 : idle_most;

    while (still_away(module, polls) && (helper->wanted || idle_wakes < idle_most)) {
        sleep_until_due(module, polls);
        if (run_until_empty(helper, polls)) {
            useful = true;
            idle_wakes = 0;
        } else {
            idle_wakes++;
        }
    }
    judge(helper, polls, useful);
}

/* A wake that came too late ends one sleep, too. */
static void look_later(struct helper *helper)
{
    struct pollfd stopped = {.fd = helper->module->helper_event, .events = POLLIN};
    uint64_t shared_ns = turns_ns(helper->module);
    struct timespec period = timespec_of(shared_ns > 0 ? shared_ns : helper->look_ns);

    helper->look_ns *= 2;
    if (helper->look_ns > helper->pace->longest_ns) {
        helper->look_ns = helper->pace->longest_ns;
    }
    if (ppoll(&stopped, 1, &period, NULL) > 0) {
        take_event(helper->module);
    }
}

static void look(struct helper *helper)
{
    unsigned long polls = polls_of(helper->module);

    /* The absence that it saw last is over: the next may come soon. */
    if (polls != helper->looked && helper->looked == helper->absence && helper->worth > 0) {
        helper->look_ns = helper->pace->shortest_ns;
    }
    helper->looked = polls;
    if (away(helper->module)) {
        take_over(helper, polls);
    }
}

static void *helper_main(void *arg)
{
    struct mca_btl_diwarp_module *module = arg;
    const bool wanted = DIWARP_ON == mca_btl_diwarp_component.params.progress_thread;
    struct helper helper = {
        .module = module, .wanted = wanted, .pace = wanted ? &pace_on : &pace_auto};

    helper.look_ns = helper.pace->shortest_ns;
    /* Else the kernel adds 50 us to each sleep. */
    (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    while (!stopping(module)) {
        look(&helper);
        look_later(&helper);
    }
    return NULL;
}

/* Signals are the application's. */
static int create_without_signals(struct mca_btl_diwarp_module *module)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&module->helper, NULL, helper_main, module);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int mca_btl_diwarp_helper_start(struct mca_btl_diwarp_module *module)
{
    module->helper_stop = false;
    module->helper_asleep = false;
    module->helper_cpu = -1;
    module->helper_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (module->helper_event < 0) {
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    if (0 != create_without_signals(module)) {
        close(module->helper_event);
        return OPAL_ERR_OUT_OF_RESOURCE;
    }
    module->helper_running = true;
    return OPAL_SUCCESS;
}

static void post_event(struct mca_btl_diwarp_module *module)
{
    const uint64_t one = 1;

    (void)!write(module->helper_event, &one, sizeof(one));
}

void mca_btl_diwarp_helper_wake(struct mca_btl_diwarp_module *module)
{
    if (__atomic_exchange_n(&module->helper_asleep, false, __ATOMIC_SEQ_CST)) {
        post_event(module);
    }
}

void mca_btl_diwarp_helper_stop(struct mca_btl_diwarp_module *module)
{
    if (module->helper_running) {
        __atomic_store_n(&module->helper_stop, true, __ATOMIC_SEQ_CST);
        post_event(module);
        pthread_join(module->helper, NULL);
        close(module->helper_event);
        module->helper_running = false;
    }
}
