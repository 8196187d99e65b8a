/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that are not there. UCX takes only devices that have a character device, though it leaves
 * it to libibverbs to open it. Open MPI's btl/openib asks libibverbs for devices only where the
 * kernel has the directory of its RDMA class. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* After a call for it has failed: what it is to be; 0: not there. */
static mode_t mode_of(const char *path)
{
    if (errno != ENOENT)
        return 0;
    if (!strcmp(path, "/dev/infiniband/diwarp0"))
        return S_IFCHR | 0666;
    return strcmp(path, "/sys/class/infiniband") ? 0 : S_IFDIR | 0755;
}

static dev_t rdev_of(mode_t mode)
{
    return S_ISCHR(mode) ? makedev(231, 255) : 0;
}

int stat(const char *restrict path, struct stat *restrict status)
{
    const int rc = fstatat(AT_FDCWD, path, status, 0);
    const mode_t mode = rc ? mode_of(path) : 0;
    if (!mode)
        return rc;
    *status = (struct stat){.st_mode = mode, .st_nlink = 1, .st_rdev = rdev_of(mode)};
    return 0;
}

int stat64(const char *restrict path, struct stat64 *restrict status)
{
    const int rc = fstatat64(AT_FDCWD, path, status, 0);
    const mode_t mode = rc ? mode_of(path) : 0;
    if (!mode)
        return rc;
    *status = (struct stat64){.st_mode = mode, .st_nlink = 1, .st_rdev = rdev_of(mode)};
    return 0;
}

int access(const char *path, int mode)
{
    const int rc = faccessat(AT_FDCWD, path, mode, 0);
    const mode_t absent = rc ? mode_of(path) : 0;
    return absent && ((unsigned)mode & absent) == (unsigned)mode ? 0 : rc; /* as everybody may */
}
