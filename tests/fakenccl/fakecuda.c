/* A libcuda.so.1 without a GPU: "device" memory is the host's, never touched; a stream is a queue with a thread and a
 * clock of its own, which moves by what each task says that it took. So the numbers are exact, and cost no time. */
#include "fake.h"
#include <pthread.h>

typedef struct task { double (*run)(void *); void *argument; struct task *next; } task;
typedef struct { pthread_mutex_t lock; pthread_cond_t changed; task *first, *last; double clock; int drained; } stream;
typedef struct { stream *on; int pending; double at; } event;
static char contexts[64];

static void *work(void *argument) {
    stream *s = argument;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (!s->first) pthread_cond_wait(&s->changed, &s->lock);
        task *t = s->first;
        if (!(s->first = t->next)) s->last = NULL;
        pthread_mutex_unlock(&s->lock);
        double took = t->run(t->argument);
        pthread_mutex_lock(&s->lock);
        s->clock += took;
        pthread_mutex_unlock(&s->lock);
        free(t);
    }
    return NULL;
}
void fakecuda_enqueue(void *handle, double (*run)(void *), void *argument) {
    stream *s = handle;
    task *t = calloc(1, sizeof *t);
    t->run = run;
    t->argument = argument;
    pthread_mutex_lock(&s->lock);
    if (s->last) s->last->next = t; else s->first = t;
    s->last = t;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}
/* Whether its host has seen this stream's end since it was last asked. */
int fakecuda_drained(void *handle) {
    stream *s = handle;
    pthread_mutex_lock(&s->lock);
    int drained = s->drained;
    s->drained = 0;
    pthread_mutex_unlock(&s->lock);
    return drained;
}
static int devices(void) {
    const char *shown = getenv("CUDA_VISIBLE_DEVICES");
    int count = (int)knob("ndev", 8), listed = 1;
    if (!shown) return count;
    for (; *shown; shown++) listed += *shown == ',';
    return listed < count ? listed : count;
}
int cuInit(unsigned flags) { (void)flags; return (int)knob("cuinit", 0); }
int cuDriverGetVersion(int *version) { *version = (int)knob("driver", 13000); return 0; }
int cuDeviceGetCount(int *count) { *count = devices(); return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return number < 0 || number >= devices() ? 101 : 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &contexts[device]; return 0; }
int cuCtxSetCurrent(void *context) { (void)context; return 0; }
int cuStreamCreate(void **made, unsigned flags) {
    (void)flags;
    stream *s = calloc(1, sizeof *s);
    pthread_t thread;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    pthread_create(&thread, NULL, work, s);
    *made = s;
    return 0;
}
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    *total = 80ull << 30;
    *free_bytes = (size_t)knob("free", 79.0 * (1 << 30));
    return 0;
}
int cuMemAlloc_v2(unsigned long long *address, size_t size) {
    *address = (uintptr_t)malloc(size);
    return *address ? 0 : 2;
}
int cuMemsetD8Async(unsigned long long a, unsigned char v, size_t n, void *s) { (void)a; (void)v; (void)n; (void)s; return 0; }
int cuEventCreate(void **made, unsigned flags) { (void)flags; *made = calloc(1, sizeof(event)); return 0; }
static double mark(void *argument) {
    event *e = argument;
    pthread_mutex_lock(&e->on->lock);
    e->at = e->on->clock;
    e->pending--;
    pthread_mutex_unlock(&e->on->lock);
    return 0;
}
int cuEventRecord(void *handle, void *on) {
    event *e = handle;
    e->on = on;
    pthread_mutex_lock(&e->on->lock);
    e->pending++;
    pthread_mutex_unlock(&e->on->lock);
    fakecuda_enqueue(on, mark, e);
    return 0;
}
int cuEventQuery(void *handle) {
    event *e = handle;
    pthread_mutex_lock(&e->on->lock);
    int pending = e->pending;
    if (!pending) e->on->drained = 1;
    pthread_mutex_unlock(&e->on->lock);
    return pending ? 600 : 0;
}
int cuEventElapsedTime(float *milliseconds, void *first, void *last) {
    *milliseconds = (float)((((event *)last)->at - ((event *)first)->at) * 1e3);
    return 0;
}
