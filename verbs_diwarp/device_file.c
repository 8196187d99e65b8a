/* SPDX-License-Identifier: BSD-3-Clause */
/* A character device that is not there: UCX takes only devices that have one, though it leaves it
 * to libibverbs to open it. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define DEVICE_FILE "/dev/infiniband/diwarp0"

int stat(const char *restrict path, struct stat *restrict status)
{
    if (strcmp(path, DEVICE_FILE) != 0)
        return fstatat(AT_FDCWD, path, status, 0);
    *status = (struct stat){.st_mode = S_IFCHR | 0666, .st_nlink = 1, .st_rdev = makedev(231, 255)};
    return 0;
}

int stat64(const char *restrict path, struct stat64 *restrict status)
{
    if (strcmp(path, DEVICE_FILE) != 0)
        return fstatat64(AT_FDCWD, path, status, 0);
    *status =
        (struct stat64){.st_mode = S_IFCHR | 0666, .st_nlink = 1, .st_rdev = makedev(231, 255)};
    return 0;
}

int access(const char *path, int mode)
{
    return strcmp(path, DEVICE_FILE) != 0 ? faccessat(AT_FDCWD, path, mode, 0) : 0;
}
