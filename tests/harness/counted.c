/* Preloaded before the C library: counts the requests to malloc, calloc and realloc, and starts and ends callgrind's
 * counting. */
#include <stddef.h>
#include <valgrind/callgrind.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

size_t allocations, allocated_bytes;

void *malloc(size_t size) {
    allocations++;
    allocated_bytes += size;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocations++;
    allocated_bytes += count * size;
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    allocations++;
    allocated_bytes += size;
    return __libc_realloc(old, size);
}

void begin_counting(void) {
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
    allocations = allocated_bytes = 0;
}

/* Writes a file. */
void end_counting(void) { CALLGRIND_DUMP_STATS; }

/* Runs several times as fast until counting begins again. */
void stop_counting(void) { CALLGRIND_STOP_INSTRUMENTATION; }
