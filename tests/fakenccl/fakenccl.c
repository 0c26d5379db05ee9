/* A libnccl.so.2 without a GPU: ranks really find each other over TCP and really wait for each other at every
 * operation; how long one took is what the knobs say (see __init__.py). Built with -DOLD it is NCCL 2.13. */
#include "fake.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

typedef int result;
enum { OK = 0, CUDA = 1, SYSTEM = 2, INVALID = 4, REMOTE = 6, PROGRESS = 7 };
typedef struct { uint64_t magic; struct sockaddr_in root; char rest[128 - 8 - sizeof(struct sockaddr_in)]; } unique;
typedef struct { size_t size; unsigned magic, version; int blocking; } config;
typedef struct comm {
    int ranks, rank, operations, listener, *in, *out;
    volatile int state, aborted;
    struct sockaddr_in *addresses;
    unique id;
} comm;
typedef struct { comm *c; int kind, peer; size_t bytes; int waits; } operation;
typedef struct { uint64_t magic; int rank, ranks; struct sockaddr_in address; } hello;
static char last_error[256];
static void (*enqueue)(void *, double (*)(void *), void *);
static int (*drained)(void *);
_Static_assert(sizeof(unique) == 128, "ncclUniqueId");

static int is(const char *key, const char *value) {
    char text[256];
    return knob_text(key, text, sizeof text) && !strcmp(text, value);
}
static void hang(comm *c) { while (!c || !c->aborted) usleep(2000); }
static int listen_on(struct sockaddr_in *address) {
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(s, (void *)address, size) || listen(s, 64) || getsockname(s, (void *)address, &size)) return -1;
    return s;
}
static int move(int s, void *data, size_t size, int out, comm *c) {
    for (char *at = data; size;) {
        struct pollfd wait = {s, out ? POLLOUT : POLLIN, 0};
        int ready = poll(&wait, 1, 20);
        if (c && c->aborted) return -1;
        if (ready <= 0) continue;
        ssize_t count = out ? send(s, at, size, MSG_NOSIGNAL) : recv(s, at, size, 0);
        if (count <= 0) return -1;
        at += count;
        size -= count;
    }
    return 0;
}
static int reach(struct sockaddr_in *address) {
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(s, (void *)address, sizeof *address)) { close(s); return -1; }
    return s;
}
static void *root(void *argument) {
    int listener = (int)(intptr_t)argument, ranks = 1, sockets[64];
    struct sockaddr_in addresses[64];
    for (int joined = 0; joined < ranks; joined++) {
        hello h;
        int s = accept(listener, NULL, NULL);
        if (s < 0 || move(s, &h, sizeof h, 0, NULL)) return NULL;
        ranks = h.ranks;
        sockets[h.rank] = s;
        addresses[h.rank] = h.address;
    }
    for (int rank = 0; rank < ranks; rank++) {
        move(sockets[rank], addresses, ranks * sizeof *addresses, 1, NULL);
        close(sockets[rank]);
    }
    return NULL;
}
static void *join(void *argument) {
    comm *c = argument;
    hello h = {c->id.magic, c->rank, c->ranks, {0}};
    if (is("hang", "init") && c->rank == (int)knob("at", 0)) { hang(c); return NULL; }
    c->listener = listen_on(&h.address);
    int s = reach(&c->id.root);
    if (s < 0 || move(s, &h, sizeof h, 1, c) || move(s, c->addresses, c->ranks * sizeof *c->addresses, 0, c)) {
        snprintf(last_error, sizeof last_error, "bootstrap: connection lost");
        c->state = REMOTE;
        return NULL;
    }
    close(s);
    c->state = OK;
    return NULL;
}
static int to(comm *c, int peer) {
    if (c->out[peer] < 0) {
        c->out[peer] = reach(&c->addresses[peer]);
        if (c->out[peer] >= 0) move(c->out[peer], &c->rank, sizeof c->rank, 1, c);
    }
    return c->out[peer];
}
static int from(comm *c, int peer) {
    while (c->in[peer] < 0) {
        struct pollfd wait = {c->listener, POLLIN, 0};
        if (c->aborted) return -1;
        if (poll(&wait, 1, 20) <= 0) continue;
        int s = accept(c->listener, NULL, NULL), rank;
        if (s < 0 || move(s, &rank, sizeof rank, 0, c)) return -1;
        c->in[rank] = s;
    }
    return c->in[peer];
}
static double between(int a, int b) {
    char key[64];
    snprintf(key, sizeof key, "rate.%d.%d", a, b);
    return knob(key, knob("rate", 1e11));
}
static void log_transport(comm *c, int peer) {
    const char *path = getenv("NCCL_DEBUG_FILE"), *level = getenv("NCCL_DEBUG");
    char via[64] = "P2P/CUMEM";
    if (getenv("NCCL_P2P_DISABLE") && getenv("NCCL_SHM_DISABLE")) strcpy(via, "NET/IB/0/GDRDMA");
    knob_text("transport", via, sizeof via);
    FILE *file = path && level && !strcmp(level, "INFO") ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "host:%d:%d [%d] NCCL INFO Channel 00/0 : %d[%d] -> %d[%d] %svia %s\n", getpid(), getpid(), c->rank,
            c->rank, c->rank, peer, peer, strncmp(via, "NET", 3) ? "" : "[send] ", via);
    fclose(file);
}
static double fail(comm *c) {
    if (!c->aborted) {
        snprintf(last_error, sizeof last_error, "connection closed by remote peer");
        c->state = REMOTE;
    }
    hang(c);
    return 0;
}
/* On the stream: meet the peers, then say how long it took. */
static double run(void *argument) {
    operation o = *(operation *)argument;
    comm *c = o.c;
    char token = 0;
    free(argument);
    int number = c->operations++, at = (int)knob("at", 0), mine = c->rank == at;
    if (number == 0) log_transport(c, (c->rank + 1) % c->ranks);
    if (mine && (is("hang", "connect") || (is("hang", "run") && number >= 5))) { hang(c); return 0; }
    if (mine && is("fault", "die") && number >= 5) raise(SIGKILL);
    if (mine && is("fault", "remote_error") && number >= 5) return fail(c);
    if (c->aborted) return 0;
    if (o.kind == 0 && c->ranks > 1) {
        int next = (c->rank + 1) % c->ranks, before = (c->rank + c->ranks - 1) % c->ranks;
        int s = to(c, next);
        if (s < 0 || move(s, &token, 1, 1, c)) return fail(c);
        int r = from(c, before);
        if (r < 0 || move(r, &token, 1, 0, c)) return fail(c);
    } else if (o.kind == 1) {
        int s = to(c, o.peer);
        if (s < 0 || move(s, &token, 1, 1, c)) return fail(c);
    } else if (o.kind == 2) {
        int r = from(c, o.peer);
        if (r < 0 || move(r, &token, 1, 0, c)) return fail(c);
    }
    double rate = o.kind == 1 ? between(c->rank, o.peer) : o.kind == 2 ? between(o.peer, c->rank) : between(0, 0);
    double crossing = o.kind ? o.bytes : o.bytes * 2.0 * (c->ranks - 1) / c->ranks;
    if (!o.kind)
        for (int r = 0; r < c->ranks; r++)
            if (between(r, (r + 1) % c->ranks) < rate) rate = between(r, (r + 1) % c->ranks);
    double waited = o.waits && !mine ? knob("skew", 0) : 0; /* for the host of the rank that saw its last end later */
    return waited + crossing / rate + knob("latency", 0) + (number % 7 == 6 ? knob("jitter", 0) : 0);
}
static result add(comm *c, int kind, int peer, size_t bytes, void *stream) {
    if (c->state != OK) return c->state;
    operation *o = malloc(sizeof *o);
    *o = (operation){c, kind, peer, bytes, drained(stream)};
    enqueue(stream, run, o);
    return OK;
}
result ncclGetVersion(int *version) {
#ifdef OLD
    *version = 21304;
#else
    *version = (int)knob("version", 23203);
#endif
    return OK;
}
result ncclGetUniqueId(unique *id) {
    pthread_t thread;
    memset(id, 0, sizeof *id);
    int s = listen_on(&id->root);
    if (s < 0) return SYSTEM;
    id->magic = (uint64_t)getpid();
    pthread_create(&thread, NULL, root, (void *)(intptr_t)s);
    return OK;
}
const char *ncclGetErrorString(result code) {
    return code == REMOTE ? "remote process exited or there was a network error" : code == CUDA ? "unhandled cuda error" : "fake error";
}
const char *ncclGetLastError(comm *c) { (void)c; return last_error; }
#ifndef OLD
result ncclCommInitRankConfig(comm **made, int ranks, unique id, int rank, config *wanted) {
    char path[512], folder[256];
    if (!wanted || wanted->magic != 0xcafebeef || wanted->blocking != 0 || wanted->size != sizeof *wanted) return INVALID;
    if (knob_text("dump", folder, sizeof folder)) {
        extern char **environ;
        snprintf(path, sizeof path, "%s/%d.env", folder, rank);
        FILE *file = fopen(path, "w");
        for (char **e = environ; file && *e; e++) fprintf(file, "%s\n", *e);
        if (file) fclose(file);
    }
    if (knob("initerror", 0)) return (result)knob("initerror", 0);
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    enqueue = dlsym(cuda, "fakecuda_enqueue");
    drained = dlsym(cuda, "fakecuda_drained");
    comm *c = calloc(1, sizeof *c);
    *c = (comm){.ranks = ranks, .rank = rank, .state = PROGRESS, .id = id};
    c->in = malloc(ranks * sizeof(int));
    c->out = malloc(ranks * sizeof(int));
    c->addresses = calloc(ranks, sizeof *c->addresses);
    for (int r = 0; r < ranks; r++) c->in[r] = c->out[r] = -1;
    pthread_t thread;
    pthread_create(&thread, NULL, join, c);
    *made = c;
    return PROGRESS;
}
#endif
result ncclCommGetAsyncError(comm *c, result *state) { *state = c->state; return OK; }
result ncclCommAbort(comm *c) {
    char path[512], folder[256];
    if (knob_text("dump", folder, sizeof folder)) {
        snprintf(path, sizeof path, "%s/%d.abort", folder, c->rank);
        FILE *file = fopen(path, "w");
        if (file) fclose(file);
    }
    if (is("hang_abort", "1")) hang(NULL);
    c->aborted = 1;
    return OK;
}
result ncclCommFinalize(comm *c) { (void)c; return OK; }
result ncclCommDestroy(comm *c) { c->aborted = 1; return OK; }
result ncclAllReduce(const void *s, void *r, size_t n, int type, int op, comm *c, void *stream) {
    (void)s; (void)r; (void)type; (void)op;
    return add(c, 0, 0, n * 4, stream);
}
result ncclSend(const void *s, size_t n, int type, int peer, comm *c, void *stream) {
    (void)s; (void)type;
    return add(c, 1, peer, n * 4, stream);
}
result ncclRecv(void *r, size_t n, int type, int peer, comm *c, void *stream) {
    (void)r; (void)type;
    return add(c, 2, peer, n * 4, stream);
}
