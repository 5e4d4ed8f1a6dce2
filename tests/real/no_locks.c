/* Preloaded into a process, makes a directory look as if it were on a poor file system: where FAULTY_LOCKS says so no
   file under it can be locked, where FAULTY_MEMORY says so none can be mapped into shared memory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

static int is_under(int descriptor, const char *variable) {
    const char *directory = getenv(variable);
    char link[64], path[4096];
    if (!directory || descriptor < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strncmp(path, directory, strlen(directory)) == 0;
}

static int refuse_lock(int descriptor, int command) {
    int is_lock = command == F_SETLK || command == F_SETLKW || command == F_GETLK || command == F_OFD_SETLK ||
                  command == F_OFD_SETLKW || command == F_OFD_GETLK;
    return is_lock && is_under(descriptor, "FAULTY_LOCKS");
}

#define FCNTL(name)                                                                  \
    int name(int descriptor, int command, ...) {                                     \
        static int (*real)(int, int, ...);                                           \
        va_list arguments;                                                           \
        va_start(arguments, command);                                                \
        void *argument = va_arg(arguments, void *);                                  \
        va_end(arguments);                                                           \
        if (refuse_lock(descriptor, command)) {                                      \
            errno = ENOLCK;                                                          \
            return -1;                                                               \
        }                                                                            \
        if (!real) real = (int (*)(int, int, ...))dlsym(RTLD_NEXT, #name);           \
        return real(descriptor, command, argument);                                  \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

int flock(int descriptor, int operation) {
    static int (*real)(int, int);
    if (is_under(descriptor, "FAULTY_LOCKS")) {
        errno = ENOLCK;
        return -1;
    }
    if (!real) real = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");
    return real(descriptor, operation);
}

#define MMAP(name)                                                                                             \
    void *name(void *address, size_t length, int protection, int flags, int descriptor, off_t offset) {        \
        static void *(*real)(void *, size_t, int, int, int, off_t);                                            \
        if ((flags & MAP_SHARED) && is_under(descriptor, "FAULTY_MEMORY")) {                                   \
            errno = ENODEV;                                                                                    \
            return MAP_FAILED;                                                                                 \
        }                                                                                                      \
        if (!real) real = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, #name);            \
        return real(address, length, protection, flags, descriptor, offset);                                   \
    }
MMAP(mmap)
MMAP(mmap64)
