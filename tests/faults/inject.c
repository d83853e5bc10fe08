/* Faults of the file system, for tests: loaded before libc (LD_PRELOAD), it counts the calls that concern files under
 * one folder and lets the n-th of them fail, or kills the process there. See injector.py.
 *
 * fault_arm(folder, at, error, log): count from now on, also in processes that are forked; at the at-th call return -1
 * with errno = error, or kill the whole process group if error is 0. at = 0 only counts. log, if not empty, gets a line
 * per call.
 *
 * fault_shadow(folder): from now on keep what a power cut would leave, in files INODE.GENERATION: what a file held when
 * it was last synced, and the names that a folder had then, a line "d|f INODE.GENERATION name" for each.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { N_FILES = 4096, N_INODES = 65536 };

static char under[PATH_MAX], shadow[PATH_MAX];
static int at_call, how, armed, log_fd = -1;
static char tracked[N_FILES];            /* by descriptor: whether its file is under the folder */
static struct {                          /* of all processes that were forked since */
    int count;
    unsigned generation[N_INODES];       /* of an inode, by hash: a number that is used again is another file */
} *common;

#define REAL(type, name, ...) static type (*real_##name)(__VA_ARGS__); \
    if (!real_##name) real_##name = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static int is_under(const char *path) {
    char whole[2 * PATH_MAX];
    if (!armed || !path) return 0;
    if (path[0] != '/') {
        char here[PATH_MAX];
        if (!getcwd(here, sizeof here)) return 0;
        snprintf(whole, sizeof whole, "%s/%s", here, path);
    } else snprintf(whole, sizeof whole, "%s", path);
    size_t n = strlen(under);
    return !strncmp(whole, under, n) && (whole[n] == '/' || !whole[n]);
}

/* Count a call; return whether it has to fail. */
static int fails(const char *call, const char *path) {
    if (!armed) return 0;
    int count = __atomic_add_fetch(&common->count, 1, __ATOMIC_SEQ_CST);
    if (log_fd >= 0) {
        char line[2 * PATH_MAX];
        int n = snprintf(line, sizeof line, "%s %s\n", call, path ? path : "");
        REAL(ssize_t, write, int, const void *, size_t);
        if (real_write(log_fd, line, (size_t)n) < 0) abort();
    }
    if (count != at_call) return 0;
    if (!how) kill(0, SIGKILL);
    errno = how;
    return 1;
}

static int fails_fd(const char *call, int fd) {
    if (!armed || fd < 0 || fd >= N_FILES || !tracked[fd]) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n < 0 ? 0 : n] = 0;
    return fails(call, path);
}

static void track(int fd, const char *path) {
    if (fd >= 0 && fd < N_FILES) tracked[fd] = (char)is_under(path);
}

void fault_arm(const char *folder, int at, int error, const char *log) {
    snprintf(under, sizeof under, "%s", folder);
    at_call = at, how = error;
    common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (common == MAP_FAILED) abort();
    memset(tracked, 0, sizeof tracked);
    log_fd = -1;
    if (*log) {
        REAL(int, open64, const char *, int, ...);
        log_fd = real_open64(log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    }
    armed = 1;
}

void fault_shadow(const char *folder) { snprintf(shadow, sizeof shadow, "%s", folder); }

/* ---- what a power cut leaves ------------------------------------------------------------------------------------ */

static unsigned *generation_of(ino_t inode) { return &common->generation[inode % N_INODES]; }

static void forget(const char *path) { /* the file of this name is about to go: its number may be given again */
    struct stat found;
    if (*shadow && is_under(path) && !lstat(path, &found) && (S_ISDIR(found.st_mode) || found.st_nlink == 1))
        ++*generation_of(found.st_ino);
}

static void keep(int fd) {
    struct stat found;
    if (!*shadow || fd < 0 || fd >= N_FILES || !tracked[fd] || fstat(fd, &found)) return;
    char path[2 * PATH_MAX], scratch[2 * PATH_MAX + 8], source[64], buffer[65536];
    snprintf(path, sizeof path, "%s/%lu.%u", shadow, (unsigned long)found.st_ino, *generation_of(found.st_ino));
    snprintf(scratch, sizeof scratch, "%s.tmp", path);
    snprintf(source, sizeof source, "/proc/self/fd/%d", fd);
    REAL(int, open64, const char *, int, ...);
    REAL(ssize_t, read, int, void *, size_t);
    REAL(ssize_t, write, int, const void *, size_t);
    REAL(int, rename, const char *, const char *);
    int out = real_open64(scratch, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (S_ISDIR(found.st_mode)) {
        DIR *names = opendir(source);
        for (struct dirent *one; names && (one = readdir(names));) {
            struct stat of;
            if (!strcmp(one->d_name, ".") || !strcmp(one->d_name, "..") || fstatat(fd, one->d_name, &of, AT_SYMLINK_NOFOLLOW))
                continue;
            int n = snprintf(buffer, sizeof buffer, "%c %lu.%u %s\n", S_ISDIR(of.st_mode) ? 'd' : 'f',
                             (unsigned long)of.st_ino, *generation_of(of.st_ino), one->d_name);
            if (real_write(out, buffer, (size_t)n) != n) abort();
        }
        if (names) closedir(names);
    } else {
        int in = real_open64(source, O_RDONLY);
        for (ssize_t n; (n = real_read(in, buffer, sizeof buffer)) > 0;)
            if (real_write(out, buffer, (size_t)n) != n) abort();
        close(in);
    }
    close(out);
    real_rename(scratch, path);
}

/* ---- the calls -------------------------------------------------------------------------------------------------- */

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); \
        va_list more; va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        if (is_under(path) && fails("open", path)) return -1; \
        int fd = real_##name(path, flags, mode); \
        track(fd, path); \
        return fd; \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); \
        va_list more; va_start(more, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
        va_end(more); \
        if (is_under(path) && fails("open", path)) return -1; \
        int fd = real_##name(folder, path, flags, mode); \
        track(fd, path); \
        return fd; \
    }
OPENAT(openat)
OPENAT(openat64)

#define ON_FILE(type, name, told, args, values, ...) \
    type name args { \
        REAL(type, name, __VA_ARGS__); \
        if (fails_fd(told, fd)) return -1; \
        return real_##name values; \
    }
ON_FILE(ssize_t, read, "read", (int fd, void *buffer, size_t n), (fd, buffer, n), int, void *, size_t)
ON_FILE(ssize_t, pread64, "read", (int fd, void *buffer, size_t n, off_t at), (fd, buffer, n, at), int, void *, size_t, off_t)
ON_FILE(ssize_t, write, "write", (int fd, const void *buffer, size_t n), (fd, buffer, n), int, const void *, size_t)
ON_FILE(ssize_t, writev, "write", (int fd, const struct iovec *parts, int n), (fd, parts, n), int, const struct iovec *, int)
ON_FILE(int, ftruncate, "truncate", (int fd, off_t size), (fd, size), int, off_t)
ON_FILE(int, ftruncate64, "truncate", (int fd, off_t size), (fd, size), int, off_t)

#define SYNC(name) \
    int name(int fd) { \
        REAL(int, name, int); \
        if (fails_fd("fsync", fd)) return -1; \
        int is_ours = armed && fd >= 0 && fd < N_FILES && tracked[fd]; \
        keep(fd); \
        return is_ours ? 0 : real_##name(fd); /* no power is cut here: the disk need not be waited for */ \
    }
SYNC(fsync)
SYNC(fdatasync)

int close(int fd) {
    REAL(int, close, int);
    if (fd >= 0 && fd < N_FILES) tracked[fd] = 0;
    return real_close(fd);
}

#define ON_PATH(name, told, args, values, ...) \
    int name args { \
        REAL(int, name, __VA_ARGS__); \
        if (is_under(path) && fails(told, path)) return -1; \
        return real_##name values; \
    }
ON_PATH(truncate, "truncate", (const char *path, off_t size), (path, size), const char *, off_t)
ON_PATH(truncate64, "truncate", (const char *path, off_t size), (path, size), const char *, off_t)
ON_PATH(mkdir, "mkdir", (const char *path, mode_t mode), (path, mode), const char *, mode_t)

int rename(const char *old, const char *path) {
    REAL(int, rename, const char *, const char *);
    if (is_under(path) && fails("rename", path)) return -1;
    forget(path);
    return real_rename(old, path);
}

#define REMOVE(name) \
    int name(const char *path) { \
        REAL(int, name, const char *); \
        if (is_under(path) && fails(#name, path)) return -1; \
        forget(path); \
        return real_##name(path); \
    }
REMOVE(unlink)
REMOVE(rmdir)
