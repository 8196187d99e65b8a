# SPDX-License-Identifier: BSD-3-Clause
# How Spack builds diwarp, and the environment in which Open MPI finds the component. From a clone:
#   spack repo add config/spack/spack_repo/diwarp
#   spack install diwarp && spack load diwarp
#   mpirun --mca pml ob1 --mca btl diwarp,self ./program
from pathlib import Path

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class Diwarp(AutotoolsPackage):
    """Datagram-iWARP (RDMA semantics in reliable UDP datagrams, in user space, on any network
    interface) as a BTL of Open MPI, and as a library with verbs-shaped objects.

    A BTL is built with Open MPI's internal headers. Spack's openmpi has no variant that installs
    them; the openmpi of this repository adds one, devel_headers. In packages.yaml, an external Open
    MPI that has opal/mca/btl/btl.h is to be given as openmpi@4.1.4+devel_headers, say."""

    # The clone that this recipe is part of; from a tarball, `spack dev-build diwarp@main`.
    git = Path(__file__).resolve().parents[6].as_uri()

    license("BSD-3-Clause")

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("autoconf@2.69:", type="build")
    depends_on("automake@1.15:", type="build")
    depends_on("libtool", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("cmocka@1.1:", type="test")

    # For infiniband/verbs.h, which diwarp.h includes, too.
    depends_on("rdma-core")
    # Its library is loaded when authentication is asked for.
    depends_on("openssl@3:", type=("build", "link", "run"))
    depends_on("openmpi@4.1:5.0+devel_headers", type=("build", "link", "run"))
    # The modex of 5.0 is PMIx's own. One inside of Open MPI has no pmix.pc.
    depends_on("pmix", when="^openmpi@5.0")
    conflicts("^openmpi@5.0+internal-pmix", msg="diwarp needs the PMIx that Open MPI 5.0 uses")
    conflicts("platform=darwin", msg="diwarp needs Linux")

    @property
    def component_dir(self):
        return self.prefix.lib.openmpi

    def configure_args(self):
        return [
            f"--with-mpicc={self.spec['openmpi'].prefix.bin.mpicc}",
            f"--with-component-dir={self.component_dir}",
        ]

    def setup_run_environment(self, env):
        env.set("OMPI_MCA_mca_base_component_path", f"{self.component_dir}:SYSTEM_DEFAULT")
