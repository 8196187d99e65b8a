/* SPDX-License-Identifier: BSD-3-Clause */
/* A character device that is not there: UCX takes only devices that have one, though it leaves it
 * to libibverbs to open it. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* After a call for it has failed. */
static bool is_device_file(const char *path)
{
    return errno == ENOENT && !strcmp(path, "/dev/infiniband/diwarp0");
}

int stat(const char *restrict path, struct stat *restrict status)
{
    const int rc = fstatat(AT_FDCWD, path, status, 0);
    if (!rc || !is_device_file(path))
        return rc;
    *status = (struct stat){.st_mode = S_IFCHR | 0666, .st_nlink = 1, .st_rdev = makedev(231, 255)};
    return 0;
}

int stat64(const char *restrict path, struct stat64 *restrict status)
{
    const int rc = fstatat64(AT_FDCWD, path, status, 0);
    if (!rc || !is_device_file(path))
        return rc;
    *status =
        (struct stat64){.st_mode = S_IFCHR | 0666, .st_nlink = 1, .st_rdev = makedev(231, 255)};
    return 0;
}

int access(const char *path, int mode)
{
    const int rc = faccessat(AT_FDCWD, path, mode, 0);
    return rc && is_device_file(path) ? 0 : rc;
}
