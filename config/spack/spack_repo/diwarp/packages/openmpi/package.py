# SPDX-License-Identifier: BSD-3-Clause
# Spack's openmpi with one more variant, for components that are built outside of Open MPI's tree.
from spack_repo.builtin.packages.openmpi.package import Openmpi as BuiltinOpenmpi

from spack.package import *


class Openmpi(BuiltinOpenmpi):
    __doc__ = BuiltinOpenmpi.__doc__

    variant("devel_headers", default=False, description="Install Open MPI's internal headers")

    def configure_args(self):
        return super().configure_args() + self.with_or_without(
            "devel-headers", variant="devel_headers"
        )
