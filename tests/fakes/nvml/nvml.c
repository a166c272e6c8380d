/* A stand-in for the driver's libnvidia-ml.so.1, after nvml.h. It is loaded by the real binding, so that ids,
 * scopes, units, structs and error codes go through it. Each call reads the file that FAKE_NVML_STATE names:
 * a test changes the host by writing it. Without that file there is no driver.
 *
 *   count 2                     GPUs
 *   0.power_mw 350000           a figure of GPU 0; a missing one is "not supported", !15 is that error code
 *   0.energy_mj_s 350000        what a counter (energy_mj, nvlink_tx_kib, nvlink_rx_kib) grows by in a second
 *   0.compute 4711:512 4712     processes and their MiB (none: not told);  0.graphics likewise
 *   0.engine TEXT 20000         whoever runs with TEXT among its arguments computes, and holds so many MiB
 *   name.4711 /usr/bin/trainer  what a process is called
 *   p2p.0 0                     state of each P2P index between any two GPUs
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7, NO_DRIVER = 9, LOST = 15 };
enum { MAX_GPUS = 16, MAX_PROCESSES = 64, MAX_LINKS = 36, ULL = 3 };
#define ALL_LINKS 0xFFFFFFFFu
#define MIB (1024ull * 1024)
#define NOT_TOLD 0xFFFFFFFFFFFFFFFFull

typedef unsigned long long u64;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_t;
typedef struct { u64 total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned pid; u64 used; unsigned instance, compute_instance; } process_t;
typedef struct { unsigned id, scope; long long at, latency; int type, result; union { double d; u64 ull; } value; } field_t;

static int handles[MAX_GPUS];

/* Copy what the state says of a key; return whether it says anything. */
static int say(const char *key, char *into, size_t size) {
    const char *path = getenv("FAKE_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[4096];
    int found = 0;
    if (!file) return 0;
    while (!found && fgets(line, sizeof line, file)) {
        char *blank = strchr(line, ' ');
        if (!blank) continue;
        *blank = 0;
        if (strcmp(line, key)) continue;
        blank[1 + strcspn(blank + 1, "\n")] = 0;
        snprintf(into, size, "%s", blank + 1);
        found = 1;
    }
    fclose(file);
    return found;
}

static int of(void *handle) { return *(int *)handle; }

/* Text of a GPU's key: SUCCESS, or the error that the state wants. */
static int text(void *handle, const char *name, char *into, size_t size) {
    char key[128], lost[8];
    snprintf(key, sizeof key, "%d.lost", of(handle));
    if (say(key, lost, sizeof lost)) return LOST;
    snprintf(key, sizeof key, "%d.%s", of(handle), name);
    if (!say(key, into, size)) return NOT_SUPPORTED;
    return into[0] == '!' ? atoi(into + 1) : SUCCESS;
}

static int number(void *handle, const char *name, u64 *into) {
    char value[64];
    int result = text(handle, name, value, sizeof value);
    if (!result) *into = strtoull(value, NULL, 0);
    return result;
}

static int small(void *handle, const char *name, unsigned *into) {
    u64 value = 0;
    int result = number(handle, name, &value);
    if (!result) *into = (unsigned)value;
    return result;
}

static int counter(void *handle, const char *name, u64 *into) {
    char rate_name[64];
    struct timespec now;
    u64 rate = 0;
    int result = number(handle, name, into);
    if (result) return result;
    snprintf(rate_name, sizeof rate_name, "%s_s", name);
    if (number(handle, rate_name, &rate)) return SUCCESS;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *into += (u64)((double)rate * ((double)now.tv_sec + (double)now.tv_nsec / 1e9));
    return SUCCESS;
}

static int copy(void *handle, const char *name, char *into, unsigned size) { return text(handle, name, into, size); }

int nvmlInitWithFlags(unsigned flags) {
    char value[8];
    (void)flags;
    for (int index = 0; index < MAX_GPUS; index++) handles[index] = index;
    return say("count", value, sizeof value) ? SUCCESS : NO_DRIVER;
}
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int result) { (void)result; return "as the stand-in was told"; }
int nvmlDeviceGetCount_v2(unsigned *count) {
    char value[8];
    if (!say("count", value, sizeof value)) return UNINITIALIZED;
    *count = (unsigned)atoi(value);
    return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    char value[8], key[32];
    snprintf(key, sizeof key, "%u.lost", index);
    if (index >= MAX_GPUS) return INVALID;
    if (say(key, value, sizeof value)) return LOST;
    *handle = &handles[index];
    return SUCCESS;
}
int nvmlSystemGetDriverVersion(char *into, unsigned size) { return say("driver", into, size) ? SUCCESS : NOT_SUPPORTED; }
int nvmlSystemGetCudaDriverVersion(int *into) {
    char value[16];
    if (!say("cuda", value, sizeof value)) return NOT_SUPPORTED;
    *into = atoi(value);
    return SUCCESS;
}
int nvmlSystemGetProcessName(unsigned pid, char *into, unsigned size) {
    char key[64];
    FILE *file;
    snprintf(key, sizeof key, "name.%u", pid);
    if (say(key, into, size)) return SUCCESS;
    snprintf(key, sizeof key, "/proc/%u/cmdline", pid);
    file = fopen(key, "r");
    if (!file) return NOT_FOUND;
    into[fread(into, 1, size - 1, file)] = 0;
    fclose(file);
    return SUCCESS;
}

int nvmlDeviceGetName(void *h, char *into, unsigned size) { return copy(h, "name", into, size); }
int nvmlDeviceGetUUID(void *h, char *into, unsigned size) { return copy(h, "uuid", into, size); }
int nvmlDeviceGetArchitecture(void *h, unsigned *into) { return small(h, "architecture", into); }
int nvmlDeviceGetPowerUsage(void *h, unsigned *into) { return small(h, "power_mw", into); }
int nvmlDeviceGetPowerManagementLimit(void *h, unsigned *into) { return small(h, "power_limit_mw", into); }
int nvmlDeviceGetPowerManagementDefaultLimit(void *h, unsigned *into) { return small(h, "power_default_mw", into); }
int nvmlDeviceGetDisplayActive(void *h, unsigned *into) { return small(h, "display", into); }
int nvmlDeviceGetPersistenceMode(void *h, unsigned *into) { return small(h, "persistence", into); }
int nvmlDeviceGetCurrPcieLinkGeneration(void *h, unsigned *into) { return small(h, "pcie_generation", into); }
int nvmlDeviceGetCurrPcieLinkWidth(void *h, unsigned *into) { return small(h, "pcie_width", into); }
int nvmlDeviceGetMaxPcieLinkGeneration(void *h, unsigned *into) { return small(h, "pcie_generation_max", into); }
int nvmlDeviceGetMaxPcieLinkWidth(void *h, unsigned *into) { return small(h, "pcie_width_max", into); }
int nvmlDeviceGetTotalEnergyConsumption(void *h, u64 *into) { return counter(h, "energy_mj", into); }
int nvmlDeviceGetCurrentClocksEventReasons(void *h, u64 *into) { return number(h, "event_reasons", into); }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, u64 *into) { return number(h, "throttle_reasons", into); }
int nvmlDeviceGetTemperature(void *h, unsigned sensor, unsigned *into) {
    return sensor == 0 ? small(h, "temperature", into) : INVALID;
}
int nvmlDeviceGetClockInfo(void *h, unsigned clock, unsigned *into) {
    return small(h, clock == 1 ? "sm_mhz" : clock == 2 ? "memory_mhz" : "other_mhz", into);
}
int nvmlDeviceGetUtilizationRates(void *h, utilization_t *into) {
    into->memory = 0;
    return small(h, "utilisation", &into->gpu);
}
int nvmlDeviceGetPcieThroughput(void *h, unsigned way, unsigned *into) {
    return small(h, way == 0 ? "pcie_tx_kib_s" : "pcie_rx_kib_s", into);
}
int nvmlDeviceGetPciInfo_v3(void *h, pci_t *into) {
    memset(into, 0, sizeof *into);
    return copy(h, "pci", into->bus_id, sizeof into->bus_id);
}
int nvmlDeviceGetP2PStatus(void *first, void *second, unsigned index, unsigned *into) {
    char key[32], value[16];
    (void)first, (void)second;
    snprintf(key, sizeof key, "p2p.%u", index);
    if (!say(key, value, sizeof value)) return NOT_SUPPORTED;
    *into = (unsigned)atoi(value);
    return SUCCESS;
}
int nvmlDeviceGetNvLinkState(void *h, unsigned link, unsigned *into) {
    char states[MAX_LINKS * 2 + 1];
    int result = text(h, "nvlinks", states, sizeof states); /* 1111: four links, all up */
    if (result) return result;
    if (link >= strlen(states)) return INVALID;
    *into = states[link] == '1';
    return SUCCESS;
}

/* 138 and 139 count KiB sent and received: over all links with the scope of all, else over that link. */
int nvmlDeviceGetFieldValues(void *h, int count, field_t *values) {
    char states[MAX_LINKS * 2 + 1], lost[8];
    int linked = !text(h, "nvlinks", states, sizeof states);
    if (text(h, "lost", lost, sizeof lost) == LOST) return LOST;
    for (int at = 0; at < count; at++) {
        field_t *one = &values[at];
        const char *name = one->id == 138 ? "nvlink_tx_kib" : one->id == 139 ? "nvlink_rx_kib" : NULL;
        one->type = ULL;
        one->value.ull = 0;
        one->result = !name ? INVALID : linked ? counter(h, name, &one->value.ull) : NOT_SUPPORTED;
        if (one->result || one->scope == ALL_LINKS) continue;
        if (one->scope >= strlen(states)) one->result = INVALID;
        else one->value.ull /= strlen(states);
    }
    return SUCCESS;
}

static unsigned with_argument(const char *wanted, unsigned *pids, unsigned most) {
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    unsigned found = 0;
    while (folder && found < most && (entry = readdir(folder))) {
        char path[300], line[8192];
        size_t length;
        FILE *file;
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        if (!(file = fopen(path, "r"))) continue;
        length = fread(line, 1, sizeof line - 1, file);
        fclose(file);
        for (size_t at = 0; at < length; at++) line[at] = line[at] ? line[at] : ' ';
        line[length] = 0;
        if (strstr(line, wanted) && !strstr(line, "measure.keeper")) pids[found++] = (unsigned)atoi(entry->d_name);
    }
    if (folder) closedir(folder);
    return found;
}

static unsigned processes(void *h, const char *name, process_t *all) {
    char value[1024], wanted[900], *rest = value, *one;
    unsigned found = 0, pids[MAX_PROCESSES], mib = 0;
    if (!text(h, name, value, sizeof value))
        for (; (one = strtok_r(rest, " ", &rest)) && found < MAX_PROCESSES; found++) {
            char *colon = strchr(one, ':');
            all[found] = (process_t){(unsigned)atoi(one), colon ? strtoull(colon + 1, NULL, 10) * MIB : NOT_TOLD, ~0u, ~0u};
        }
    if (!strcmp(name, "compute") && !text(h, "engine", value, sizeof value) &&
        sscanf(value, "%899s %u", wanted, &mib) == 2) {
        unsigned running = with_argument(wanted, pids, MAX_PROCESSES - found);
        for (unsigned at = 0; at < running; at++) all[found++] = (process_t){pids[at], mib * MIB, ~0u, ~0u};
    }
    return found;
}

static int running(void *h, const char *name, unsigned *count, process_t *into) {
    process_t all[MAX_PROCESSES];
    char lost[8];
    unsigned found;
    if (text(h, "lost", lost, sizeof lost) == LOST) return LOST;
    found = processes(h, name, all);
    if (found && (!into || *count < found)) {
        *count = found;
        return SMALL;
    }
    *count = found;
    if (found) memcpy(into, all, found * sizeof *all);
    return SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, process_t *p) { return running(h, "compute", n, p); }
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *h, unsigned *n, process_t *p) { return running(h, "graphics", n, p); }

/* What the state says is in use, and what the computing processes hold. */
int nvmlDeviceGetMemoryInfo(void *h, memory_t *into) {
    process_t all[MAX_PROCESSES];
    u64 total = 0, used = 0;
    int result = number(h, "memory_mib", &total);
    if (result) return result;
    number(h, "used_mib", &used);
    used *= MIB;
    for (unsigned at = 0, found = processes(h, "compute", all); at < found; at++)
        used += all[at].used == NOT_TOLD ? 0 : all[at].used;
    *into = (memory_t){total * MIB, total * MIB - used, used};
    return SUCCESS;
}
