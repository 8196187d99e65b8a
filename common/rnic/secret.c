/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/rnic/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/llp/socket.h"
#include "common/wire/bytes.h"

/* Of the key file; what is beyond is not read. */
#define FILE_MIN_BYTES 16
#define FILE_MAX_BYTES 1024

static int refuse(struct diwarp_diagnosis *why, int rc, const char *path, const char *fault)
{
    dw_explain(why, "key file %s: %s", path, fault);
    return rc;
}

/* A file that the user's group or others may read is no secret. */
static int open_file(const char *path, struct diwarp_diagnosis *why)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return refuse(why, -errno, path, strerror(errno));
    const char *fault = fstat(fd, &status)         ? strerror(errno)
                        : !S_ISREG(status.st_mode) ? "not a regular file"
                        : status.st_mode & 077     ? "others than its owner may use it: chmod 600"
                                                   : NULL;
    if (!fault)
        return fd;
    close(fd);
    return refuse(why, -EACCES, path, fault);
}

static int read_file(const char *path, uint8_t key[DW_HMAC_BYTES], uint32_t *id,
                     struct diwarp_diagnosis *why)
{
    static const char label[] = "diwarp key file", id_label[] = "id";
    uint8_t bytes[FILE_MAX_BYTES], mac[DW_HMAC_BYTES];
    int fd = open_file(path, why);
    if (fd < 0)
        return fd;
    const ssize_t got = read(fd, bytes, sizeof bytes);
    const int error = errno;
    close(fd);
    if (got < FILE_MIN_BYTES)
        return got < 0 ? refuse(why, -error, path, strerror(error))
                       : refuse(why, -EINVAL, path, "less than 16 bytes long");
    const bool good = dw_hmac(label, sizeof label - 1, bytes, (size_t)got, key) &&
                      dw_hmac(key, DW_HMAC_BYTES, id_label, sizeof id_label - 1, mac);
    explicit_bzero(bytes, sizeof bytes);
    *id = dw_get_be32(mac) | 1;
    return good ? 0 : -ENOMEM;
}

int dw_secret_get(const struct diwarp_device_attr *attr, uint8_t file_key[DW_HMAC_BYTES],
                  uint32_t *id, struct diwarp_diagnosis *why)
{
    const bool with_file = attr->auth_key_file && attr->auth_key_file[0];
    if (attr->auth == DIWARP_AUTH_OFF && with_file) {
        dw_explain(why, "a key file is of no use without authentication");
        return -EINVAL;
    }
    if (attr->auth == DIWARP_AUTH_OFF)
        return 0;
    const char *fault = dw_crypto_load();
    if (fault) {
        dw_explain(why, "authentication needs libcrypto (OpenSSL 3): %s", fault);
        return -ENOTSUP;
    }
    return with_file ? read_file(attr->auth_key_file, file_key, id, why) : 0;
}

int dw_secret_draw(void *secret, size_t bytes, struct diwarp_diagnosis *why)
{
    if (getrandom(secret, bytes, 0) == (ssize_t)bytes)
        return 0;
    dw_explain(why, "no random numbers from the kernel: %s", strerror(errno));
    return -EIO;
}
