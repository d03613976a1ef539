/* Counts the bytes that a process asks malloc, calloc and realloc for; is loaded before the C library. */
#include <stddef.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

size_t allocated_bytes;

void *malloc(size_t size) {
    allocated_bytes += size;
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allocated_bytes += count * size;
    return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
    allocated_bytes += size;
    return __libc_realloc(old, size);
}
