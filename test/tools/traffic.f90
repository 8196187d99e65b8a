! SPDX-License-Identifier: BSD-3-Clause
! Known traffic from Fortran, through mpi_f08 and through mpif.h: each rank sends 800 and receives
! 800 bytes by each, and takes part in one reduction of 8 bytes by each.
subroutine old_interface(rank, partner)
    implicit none
    include 'mpif.h'
    integer :: rank, partner, request, error
    double precision :: out(100), in(100), one, sum

    out = rank
    one = 1
    call MPI_Irecv(in, 100, MPI_DOUBLE_PRECISION, partner, 1, MPI_COMM_WORLD, request, error)
    call MPI_Send(out, 100, MPI_DOUBLE_PRECISION, partner, 1, MPI_COMM_WORLD, error)
    call MPI_Wait(request, MPI_STATUS_IGNORE, error)
    call MPI_Allreduce(one, sum, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    if (in(100) /= partner .or. sum /= 2) call MPI_Abort(MPI_COMM_WORLD, 1, error)
end subroutine

program traffic
    use mpi_f08
    implicit none
    integer :: rank, partner
    type(MPI_Request) :: request
    double precision :: out(100), in(100), one, sum

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    partner = 1 - rank
    out = rank
    one = 1
    call MPI_Irecv(in, 100, MPI_DOUBLE_PRECISION, partner, 2, MPI_COMM_WORLD, request)
    call MPI_Send(out, 100, MPI_DOUBLE_PRECISION, partner, 2, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Allreduce(one, sum, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    if (in(100) /= partner .or. sum /= 2) call MPI_Abort(MPI_COMM_WORLD, 1)
    call old_interface(rank, partner)
    call MPI_Finalize()
end program
