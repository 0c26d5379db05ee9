/* A libnvidia-ml.so.1 without a GPU: what it says is read from $FAKE_NVML_FILE at every call, so that a test can
 * change it while the daemon runs. Lines are `key value`; see __init__.py. Each call is noted in $FAKE_NVML_LOG.
 * Written from NVIDIA's documented interface; sizes and offsets are checked below against its header's. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int ret_t;
typedef struct { int index; } device_s;
typedef device_s *device_t;
typedef union { double d; unsigned ui; unsigned long ul; unsigned long long ull; long long sll; int si; unsigned short us; } value_t;
typedef struct { unsigned field, scope; long long timestamp, latency; unsigned type; ret_t ret; value_t value; } field_t;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory2_t;
typedef struct { device_t device; unsigned long long type, data; unsigned gi, ci; } event_t;
typedef struct { unsigned char uuid[16]; ret_t status; unsigned clique; unsigned char state; } fabric1_t;
typedef struct { unsigned version; unsigned char uuid[16]; ret_t status; unsigned clique; unsigned char state; unsigned mask; unsigned char summary; } fabric3_t;
_Static_assert(sizeof(field_t) == 40 && sizeof(pci_t) == 68 && sizeof(event_t) == 32, "ABI");
_Static_assert(sizeof(fabric1_t) == 28 && sizeof(fabric3_t) == 40, "ABI");

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, UNSUPPORTED = 3, TIMEOUT = 10, MISSING = 13, VERSION = 25 };
static device_s devices[16];
static int opened, session, events_given;
static char text[1 << 18];

static void load(void) {
    text[0] = '\n';
    ssize_t size = 0;
    const char *path = getenv("FAKE_NVML_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) { size = read(file, text + 1, sizeof text - 2); close(file); }
    text[1 + (size > 0 ? size : 0)] = 0;
}
static const char *find(const char *key) {
    char sought[128];
    int length = snprintf(sought, sizeof sought, "\n%s ", key);
    const char *at = strstr(text, sought);
    return at ? at + length : NULL;
}
static long long number(long long otherwise, const char *format, const char *a, int b, int c, int d) {
    char key[128];
    if (a) snprintf(key, sizeof key, format, a, b, c, d); else snprintf(key, sizeof key, format, b, c, d);
    const char *at = find(key);
    return at ? strtoll(at, NULL, 0) : otherwise;
}
static void word(char *out, unsigned size, const char *key, int index, const char *otherwise) {
    char full[64];
    snprintf(full, sizeof full, "%s.%d", key, index);
    const char *at = find(full);
    unsigned length = at ? strcspn(at, "\n") : strlen(otherwise);
    if (length >= size) length = size - 1;
    memcpy(out, at ? at : otherwise, length);
    out[length] = 0;
}
static void note(const char *call, long detail) {
    const char *path = getenv("FAKE_NVML_LOG");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    if (file >= 0) { dprintf(file, "%s %ld\n", call, detail); close(file); }
}
/* What happens to every call: noted, hung, crashed, refused for this GPU (index -1: no GPU). */
static ret_t begin(const char *call, int index) {
    load();
    note(call, index);
    if (number(0, "hang.%s", call, 0, 0, 0)) for (;;) pause();
    if (number(0, "segv.%s", call, 0, 0, 0)) raise(SIGSEGV);
    if (opened && number(0, "session", NULL, 0, 0, 0) != session) return UNINITIALIZED;
    if (!opened && strcmp(call, "nvmlInitWithFlags")) return UNINITIALIZED;
    if (index < 0) return number(0, "err.%s", call, 0, 0, 0);
    ret_t all = number(0, "lost.%d", NULL, index, 0, 0);
    return all ? all : number(0, "err.%s.%d", call, index, 0, 0);
}
#define BEGIN(call, index) do { ret_t told = begin(call, index); if (told) return told; } while (0)

ret_t nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    BEGIN("nvmlInitWithFlags", -1);
    ret_t told = number(0, "init", NULL, 0, 0, 0);
    if (told) return told;
    session = number(0, "session", NULL, 0, 0, 0);
    events_given = 0;
    opened++;
    return OK;
}
ret_t nvmlShutdown(void) {
    load();
    note("nvmlShutdown", -1);
    if (!opened) return UNINITIALIZED;
    opened--;
    return OK;
}
const char *nvmlErrorString(ret_t code) { (void)code; return "fake"; }
ret_t nvmlSystemGetDriverVersion(char *out, unsigned size) {
    BEGIN("nvmlSystemGetDriverVersion", -1);
    word(out, size, "driver", 0, "550.90.07");
    return OK;
}
ret_t nvmlDeviceGetCount_v2(unsigned *count) {
    BEGIN("nvmlDeviceGetCount_v2", -1);
    *count = number(0, "count", NULL, 0, 0, 0);
    return OK;
}
ret_t nvmlDeviceGetHandleByIndex_v2(unsigned index, device_t *device) {
    BEGIN("nvmlDeviceGetHandleByIndex_v2", (int)index);
    if (index >= 16) return INVALID;
    devices[index].index = index;
    *device = &devices[index];
    return OK;
}
ret_t nvmlDeviceGetName(device_t d, char *out, unsigned size) {
    BEGIN("nvmlDeviceGetName", d->index);
    word(out, size, "name", d->index, "NVIDIA H100 80GB HBM3");
    return OK;
}
ret_t nvmlDeviceGetUUID(device_t d, char *out, unsigned size) {
    BEGIN("nvmlDeviceGetUUID", d->index);
    char otherwise[32];
    snprintf(otherwise, sizeof otherwise, "GPU-fake-%d", d->index);
    word(out, size, "uuid", d->index, otherwise);
    return OK;
}
ret_t nvmlDeviceGetSerial(device_t d, char *out, unsigned size) {
    BEGIN("nvmlDeviceGetSerial", d->index);
    word(out, size, "serial", d->index, "1562123000000");
    return OK;
}
ret_t nvmlDeviceGetPciInfo_v3(device_t d, pci_t *pci) {
    BEGIN("nvmlDeviceGetPciInfo_v3", d->index);
    memset(pci, 0, sizeof *pci);
    pci->bus = number(0x10 + d->index, "bus.%d", NULL, d->index, 0, 0);
    return OK;
}
ret_t nvmlDeviceGetMigMode(device_t d, unsigned *current, unsigned *pending) {
    BEGIN("nvmlDeviceGetMigMode", d->index);
    *current = *pending = number(0, "mig.%d", NULL, d->index, 0, 0);
    return OK;
}
/* `procs.G PID PID ...`, `util.G PERCENT`, `used.G BYTES`. */
ret_t nvmlDeviceGetComputeRunningProcesses_v3(device_t d, unsigned *count, process_t *out) {
    BEGIN("nvmlDeviceGetComputeRunningProcesses_v3", d->index);
    char key[64];
    snprintf(key, sizeof key, "procs.%d", d->index);
    const char *at = find(key);
    unsigned found = 0, room = out ? *count : 0;
    for (char *next; at && *at && *at != '\n'; at = next) {
        unsigned pid = strtoul(at, &next, 10);
        if (next == at) break;
        if (found < room) out[found] = (process_t){pid, 1 << 20, 0, 0};
        found++;
    }
    *count = found;
    return found > room ? 7 : OK;
}
ret_t nvmlDeviceGetUtilizationRates(device_t d, unsigned *rates) {
    BEGIN("nvmlDeviceGetUtilizationRates", d->index);
    rates[0] = rates[1] = number(0, "util.%d", NULL, d->index, 0, 0);
    return OK;
}
ret_t nvmlDeviceGetMemoryInfo_v2(device_t d, memory2_t *out) {
    BEGIN("nvmlDeviceGetMemoryInfo_v2", d->index);
    *out = (memory2_t){out->version, 80ull << 30, 600ull << 20, 0, number(0, "used.%d", NULL, d->index, 0, 0)};
    return OK;
}
ret_t nvmlDeviceGetNvLinkState(device_t d, unsigned link, unsigned *state) {
    BEGIN("nvmlDeviceGetNvLinkState", d->index);
    long long found = number(-1, "state.%d.%d", NULL, d->index, link, 0);
    if (found < 0) return number(UNSUPPORTED, "nolink", NULL, 0, 0, 0);
    *state = found;
    return OK;
}
ret_t nvmlDeviceGetNvLinkCapability(device_t d, unsigned link, unsigned capability, unsigned *out) {
    (void)link; (void)capability;
    BEGIN("nvmlDeviceGetNvLinkCapability", d->index);
    *out = 1; /* as real ones do, for all 36 */
    return OK;
}
ret_t nvmlDeviceGetNvLinkErrorCounter(device_t d, unsigned link, unsigned counter, unsigned long long *out) {
    BEGIN("nvmlDeviceGetNvLinkErrorCounter", d->index);
    long long found = number(-1, "ec.%d.%d.%d", NULL, d->index, link, counter);
    if (found < 0) return UNSUPPORTED;
    *out = found;
    return OK;
}
ret_t nvmlDeviceGetNvLinkRemoteDeviceType(device_t d, unsigned link, unsigned *type) {
    (void)link;
    BEGIN("nvmlDeviceGetNvLinkRemoteDeviceType", d->index);
    *type = 2;
    return OK;
}
ret_t nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t d, unsigned link, pci_t *pci) {
    (void)link;
    BEGIN("nvmlDeviceGetNvLinkRemotePciInfo_v2", d->index);
    memset(pci, 0xFF, sizeof *pci); /* an NVSwitch: FFFFFFFF:FF:FF, and text that is not UTF-8 */
    return OK;
}
static void fill(field_t *field, const char *at) {
    static const char *names[] = {"d", "ui", "ul", "ull", "sll", "si", "us"};
    char type[8];
    field->value.ull = 0xDEADBEEFDEADBEEFull;
    unsigned length = strcspn(at, " ");
    snprintf(type, sizeof type, "%.*s", (int)length, at);
    at += length + 1;
    for (field->type = 0; field->type < 7 && strcmp(names[field->type], type); field->type++) {}
    switch (field->type) {
    case 0: field->value.d = strtod(at, NULL); break;
    case 1: field->value.ui = strtoul(at, NULL, 0); break;
    case 5: field->value.si = strtol(at, NULL, 0); break;
    case 6: field->value.us = strtoul(at, NULL, 0); break;
    default: field->value.ull = strtoull(at, NULL, 0);
    }
}
ret_t nvmlDeviceGetFieldValues(device_t d, int count, field_t *fields) {
    BEGIN("nvmlDeviceGetFieldValues", d->index);
    if (count <= 0) return INVALID;
    int filled = 0, spoilt = 0;
    for (int i = 0; i < count; i++) {
        note("field", fields[i].field);
        if (count > 1 && number(0, "spoils.%d", NULL, fields[i].field, 0, 0)) spoilt = 1;
    }
    for (int i = 0; i < count; i++) {
        field_t *field = &fields[i];
        char key[64];
        snprintf(key, sizeof key, "fval.%d.%u.%u", d->index, field->field, field->scope);
        const char *at = find(key);
        field->ret = number(at ? OK : UNSUPPORTED, "fret.%d.%d.%d", NULL, d->index, field->field, field->scope);
        if (spoilt) field->ret = UNSUPPORTED;
        field->value.ull = 0xDEADBEEFDEADBEEFull;
        if (!field->ret && at) { fill(field, at); filled = 1; }
    }
    return filled ? OK : fields[0].ret;
}
static ret_t fabric(int index, long long *values) {
    char key[32];
    snprintf(key, sizeof key, "fabric.%d", index);
    char *at = (char *)find(key);
    if (!at) return UNSUPPORTED;
    for (int i = 0; i < 4; i++) values[i] = strtoll(at, &at, 0);
    return OK;
}
ret_t nvmlDeviceGetGpuFabricInfo(device_t d, fabric1_t *info) {
    BEGIN("nvmlDeviceGetGpuFabricInfo", d->index);
    long long values[4];
    ret_t told = fabric(d->index, values);
    if (told) return told;
    memset(info, 0xEE, sizeof *info); /* padding is rubbish */
    info->state = values[0]; info->status = values[1];
    return OK;
}
#ifndef NO_FABRIC_V
ret_t nvmlDeviceGetGpuFabricInfoV(device_t d, fabric3_t *info) {
    BEGIN("nvmlDeviceGetGpuFabricInfoV", d->index);
    unsigned version = info->version >> 24;
    if (version > number(3, "fabver", NULL, 0, 0, 0)) return VERSION;
    long long values[4];
    ret_t told = fabric(d->index, values);
    if (told) return told;
    info->state = values[0]; info->status = values[1]; info->mask = values[2];
    if (version == 3) info->summary = values[3];
    return OK;
}
#endif
static ret_t pcie(const char *call, device_t d, int place, unsigned *out) {
    BEGIN(call, d->index);
    char key[32];
    snprintf(key, sizeof key, "pcie.%d", d->index);
    char *at = (char *)find(key);
    if (!at) return UNSUPPORTED;
    for (int i = 0; i <= place; i++) *out = strtoul(at, &at, 0);
    return OK;
}
ret_t nvmlDeviceGetCurrPcieLinkGeneration(device_t d, unsigned *out) { return pcie("nvmlDeviceGetCurrPcieLinkGeneration", d, 0, out); }
ret_t nvmlDeviceGetCurrPcieLinkWidth(device_t d, unsigned *out) { return pcie("nvmlDeviceGetCurrPcieLinkWidth", d, 1, out); }
ret_t nvmlDeviceGetMaxPcieLinkGeneration(device_t d, unsigned *out) { return pcie("nvmlDeviceGetMaxPcieLinkGeneration", d, 2, out); }
ret_t nvmlDeviceGetMaxPcieLinkWidth(device_t d, unsigned *out) { return pcie("nvmlDeviceGetMaxPcieLinkWidth", d, 3, out); }
ret_t nvmlDeviceGetPcieReplayCounter(device_t d, unsigned *out) { return pcie("nvmlDeviceGetPcieReplayCounter", d, 4, out); }

ret_t nvmlEventSetCreate(void **set) { BEGIN("nvmlEventSetCreate", -1); *set = &events_given; return OK; }
ret_t nvmlEventSetFree(void *set) { (void)set; BEGIN("nvmlEventSetFree", -1); return OK; }
ret_t nvmlDeviceRegisterEvents(device_t d, unsigned long long types, void *set) {
    (void)types; (void)set;
    BEGIN("nvmlDeviceRegisterEvents", d->index);
    return OK;
}
ret_t nvmlEventSetWait_v2(void *set, event_t *event, unsigned timeout) {
    (void)set; (void)timeout;
    BEGIN("nvmlEventSetWait_v2", -1);
    char key[32];
    snprintf(key, sizeof key, "xid.%d", events_given);
    char *at = (char *)find(key);
    if (!at) return TIMEOUT;
    events_given++;
    memset(event, 0, sizeof *event);
    event->device = &devices[strtol(at, &at, 0)];
    event->type = 8;
    event->data = strtoull(at, NULL, 0);
    return OK;
}
