/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that are not there. UCX takes only devices that have a character device, though it leaves it to
 * libibverbs to open it. Open MPI's btl/openib asks libibverbs for devices only where the kernel has the
 * directory of its RDMA class. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct absent {
    mode_t mode;
    dev_t rdev;
};

/* After a call for it has failed: what to say is there; false if nothing is. */
static bool is_absent_file(const char *path, struct absent *absent)
{
    if (errno != ENOENT)
        return false;
    if (!strcmp(path, "/dev/infiniband/diwarp0"))
        *absent = (struct absent){.mode = S_IFCHR | 0666, .rdev = makedev(231, 255)};
    else if (!strcmp(path, "/sys/class/infiniband"))
        *absent = (struct absent){.mode = S_IFDIR | 0755};
    else
        return false;
    return true;
}

int stat(const char *restrict path, struct stat *restrict status)
{
    struct absent absent;
    const int rc = fstatat(AT_FDCWD, path, status, 0);
    if (!rc || !is_absent_file(path, &absent))
        return rc;
    *status = (struct stat){.st_mode = absent.mode, .st_nlink = 1, .st_rdev = absent.rdev};
    return 0;
}

int stat64(const char *restrict path, struct stat64 *restrict status)
{
    struct absent absent;
    const int rc = fstatat64(AT_FDCWD, path, status, 0);
    if (!rc || !is_absent_file(path, &absent))
        return rc;
    *status = (struct stat64){.st_mode = absent.mode, .st_nlink = 1, .st_rdev = absent.rdev};
    return 0;
}

int access(const char *path, int mode)
{
    struct absent absent;
    const int rc = faccessat(AT_FDCWD, path, mode, 0);
    return rc && is_absent_file(path, &absent) ? 0 : rc;
}
