dnl SPDX-License-Identifier: BSD-3-Clause
dnl Options, compiler flags, and finding Open MPI and HYPRE.

dnl DW_OPTION(NAME, HELP): --enable-NAME, off by default, value in enable_NAME.
AC_DEFUN([DW_OPTION], [
AC_ARG_ENABLE([$1], [AS_HELP_STRING([--enable-$1], [$2])], [], [enable_$1=no])
AS_IF([test "$enable_$1" != no], [enable_$1=yes])])

dnl DW_APPEND_CFLAG(FLAG, [VARIABLE = DW_CFLAGS]): adds FLAG to VARIABLE when the compiler takes it.
AC_DEFUN([DW_APPEND_CFLAG], [
AC_MSG_CHECKING([whether $CC takes $1])
dw_save_CFLAGS=$CFLAGS
CFLAGS="$CFLAGS -Werror $1"
AC_COMPILE_IFELSE([AC_LANG_SOURCE([[int dw_probe(void); int dw_probe(void) { return 0; }]])],
    [AC_MSG_RESULT([yes])
     m4_default([$2], [DW_CFLAGS])="$m4_default([$2], [DW_CFLAGS]) $1"],
    [AC_MSG_RESULT([no])])
CFLAGS=$dw_save_CFLAGS])

dnl DW_REQUIRE_LINK(FLAGS, MESSAGE): a program must compile and link with FLAGS.
AC_DEFUN([DW_REQUIRE_LINK], [
AC_MSG_CHECKING([whether $CC takes $1])
dw_save_CFLAGS=$CFLAGS
CFLAGS="$CFLAGS $1"
AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([$2])])
CFLAGS=$dw_save_CFLAGS])

dnl Link-time optimisation of what is installed. A message's path goes through many small functions
dnl in files of their own: inlined, it takes a tenth fewer instructions. Not of a static library,
dnl which must serve other versions of the compiler, nor of the tests, which look at the functions
dnl one by one.
AC_DEFUN([DW_LINK_TIME_OPTIMISATION], [
AC_ARG_ENABLE([lto], [AS_HELP_STRING([--disable-lto],
    [no link-time optimisation (done with gcc, and not with --enable-static)])], [], [enable_lto=auto])
DW_LTO_CFLAGS=
DW_LTO_LDFLAGS=
dw_lto_asked=$enable_lto
AS_CASE([$CFLAGS], [*-flto*], [enable_lto='as CFLAGS has it'],
[AS_IF([test "$enable_lto" != no && test "$enable_static$enable_sanitize$enable_fuzz" = nonono], [
    enable_lto=no
    AC_MSG_CHECKING([whether $CC optimises at link time])
    dw_save_CFLAGS=$CFLAGS
    dw_lto_CFLAGS='-flto=auto -ffat-lto-objects'
    CFLAGS="$CFLAGS -Werror $dw_lto_CFLAGS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#ifdef __clang__
#error its objects serve its own linker only
#endif
]], [])], [
        enable_lto=yes
        DW_LTO_CFLAGS=$dw_lto_CFLAGS
        DW_LTO_LDFLAGS='-flto=auto'
        DW_LDFLAGS="$DW_LDFLAGS -fno-lto"
    ])
    CFLAGS=$dw_save_CFLAGS
    AC_MSG_RESULT([$enable_lto])
], [enable_lto=no])
AS_IF([test "$dw_lto_asked$enable_lto" = yesno],
      [AC_MSG_WARN([--enable-lto: not with this compiler, or with these options])])])])

dnl Finds Open MPI through its compiler wrapper: version, headers (BTLs need the internal ones),
dnl libraries, mpirun, ompi_info and the plugin folder.
AC_DEFUN([DW_OPENMPI], [
AS_IF([test -n "$with_mpicc"], [
    AS_CASE([$with_mpicc], [*/*], [MPICC=$with_mpicc], [AC_PATH_PROG([MPICC], [$with_mpicc])])
    AS_IF([test -x "$MPICC"], [], [AC_MSG_ERROR([--with-mpicc=$with_mpicc: no such program])])
], [
    AC_PATH_PROGS([MPICC], [mpicc.openmpi mpicc])
])
AS_IF([test -n "$MPICC"], [],
    [AC_MSG_ERROR([no mpicc found: install libopenmpi-dev (Debian, Ubuntu), or name Open MPI's wrapper with --with-mpicc])])

AC_MSG_CHECKING([for the version of Open MPI])
dw_showme=`"$MPICC" --showme:version 2>/dev/null`
DW_OPENMPI_VERSION=`AS_ECHO(["$dw_showme"]) | $SED -n 's/^.*Open MPI \(@<:@0-9@:>@@<:@0-9.@:>@*\).*$/\1/p' | head -n 1`
AS_IF([test -n "$DW_OPENMPI_VERSION"], [AC_MSG_RESULT([$DW_OPENMPI_VERSION])], [
    AC_MSG_RESULT([none])
    AC_MSG_ERROR([$MPICC is not Open MPI's wrapper: diwarp needs Open MPI 4.1, 5.0 or 6.0; name its mpicc with --with-mpicc])])
AS_CASE([$DW_OPENMPI_VERSION],
    [4.1.*], [dw_openmpi=4 dw_release=4.1 dw_btl_version=310],
    [5.0.*], [dw_openmpi=5 dw_release=5.0 dw_btl_version=330],
    [6.0.*], [dw_openmpi=5 dw_release=6.0 dw_btl_version=330],
    [AC_MSG_ERROR([found Open MPI $DW_OPENMPI_VERSION ($MPICC); diwarp needs 4.1, 5.0 or 6.0])])

AC_MSG_CHECKING([for Open MPI's internal headers])
dw_incdirs=`"$MPICC" --showme:incdirs`
dw_internal=
for dir in $dw_incdirs; do
    for try in "$dir" "$dir/openmpi"; do
        AS_IF([test -z "$dw_internal" && test -f "$try/opal/mca/btl/btl.h"], [dw_internal=$try])
    done
done
AS_IF([test -n "$dw_internal"], [AC_MSG_RESULT([$dw_internal])], [
    AC_MSG_RESULT([no])
    AC_MSG_ERROR([opal/mca/btl/btl.h not found in $dw_incdirs: install libopenmpi-dev (Debian, Ubuntu), or build Open MPI with --with-devel-headers])])
MPI_CPPFLAGS=
for dir in $dw_incdirs; do
    MPI_CPPFLAGS="$MPI_CPPFLAGS -isystem $dir"
done
OPAL_CPPFLAGS="-isystem $dw_internal $MPI_CPPFLAGS"
OPAL_LIBS=
for dir in `"$MPICC" --showme:libdirs`; do
    OPAL_LIBS="$OPAL_LIBS -L$dir"
done
MPI_LIBS="$OPAL_LIBS"
for lib in `"$MPICC" --showme:libs`; do
    MPI_LIBS="$MPI_LIBS -l$lib"
done
OPAL_LIBS="$MPI_LIBS -lopen-pal"
# From 5.0 on the modex is PMIx's own, and headers of threads that others include are in no package.
AS_IF([test $dw_openmpi = 5], [
    PKG_CHECK_MODULES([PMIX], [pmix], [],
        [AC_MSG_ERROR([pmix.pc not found: install libpmix-dev (Debian, Ubuntu)])])
    OPAL_CPPFLAGS="$OPAL_CPPFLAGS `AS_ECHO(["$PMIX_CFLAGS"]) | $SED 's/-I/-isystem /g'`"
    OPAL_CPPFLAGS="$OPAL_CPPFLAGS -idirafter `cd "$srcdir" && pwd`/btl_diwarp/openmpi5"
    # Without its rpath: libopen-pal has loaded libpmix by then.
    for word in $PMIX_LIBS; do
        AS_CASE([$word], [-Wl,*], [], [OPAL_LIBS="$OPAL_LIBS $word"])
    done
])

AC_MSG_CHECKING([whether a component compiles and links against Open MPI $DW_OPENMPI_VERSION])
dw_save_CPPFLAGS=$CPPFLAGS
dw_save_CFLAGS=$CFLAGS
dw_save_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $OPAL_CPPFLAGS"
CFLAGS="$CFLAGS $DW_COMPONENT_CFLAGS"
LIBS="$OPAL_LIBS $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([[
#include "opal_config.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/show_help.h"
#if OPAL_MAJOR_VERSION != ${dw_release%.*} || OPAL_MINOR_VERSION != ${dw_release#*.} || BTL_VERSION != $dw_btl_version
#error "headers of another version"
#endif
]], [[return opal_show_help_add_dir(".");]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     AC_MSG_ERROR([headers and libraries of Open MPI $DW_OPENMPI_VERSION do not fit together (see config.log); reinstall libopenmpi-dev])])
CPPFLAGS=$dw_save_CPPFLAGS
CFLAGS=$dw_save_CFLAGS
LIBS=$dw_save_LIBS

# The programs of the same installation: beside mpicc, with Debian's suffix when mpicc has it.
dw_bindir=`AS_DIRNAME(["$MPICC"])`
AS_CASE([$MPICC], [*.openmpi], [dw_suffix=.openmpi], [dw_suffix=])
AC_PATH_PROGS([MPIRUN], [mpirun$dw_suffix mpirun], [mpirun], [$dw_bindir:$PATH])
# By the name that users have for it, if that is the same program, which looks at the name it is called by.
dw_mpirun=`command -v mpirun`
AS_IF([test -n "$dw_mpirun" && test "`readlink -f "$dw_mpirun"`" = "`readlink -f "$MPIRUN"`"],
      [MPIRUN=$dw_mpirun])
AC_PATH_PROGS([OMPI_INFO], [ompi_info$dw_suffix ompi_info], [], [$dw_bindir:$PATH])
AS_IF([test -n "$OMPI_INFO"], [],
    [AC_MSG_ERROR([no ompi_info beside $MPICC: install openmpi-bin])])
AC_MSG_CHECKING([for Open MPI's plugin folder])
DW_OPENMPI_PLUGINS=`"$OMPI_INFO" --path pkglibdir --parsable 2>/dev/null | $SED -n 's/^path:pkglibdir://p'`
AS_IF([test -d "$DW_OPENMPI_PLUGINS"], [AC_MSG_RESULT([$DW_OPENMPI_PLUGINS])], [
    AC_MSG_RESULT([no])
    AC_MSG_ERROR([$OMPI_INFO --path pkglibdir names no folder ('$DW_OPENMPI_PLUGINS')])])

AC_SUBST([DW_OPENMPI_VERSION])
AC_SUBST([DW_OPENMPI_PLUGINS])
AC_SUBST([MPI_CPPFLAGS])
AC_SUBST([MPI_LIBS])
AC_SUBST([OPAL_CPPFLAGS])
AC_SUBST([OPAL_LIBS])])

dnl Decides componentdir. componentpath stays empty where Open MPI looks by itself.
AC_DEFUN([DW_COMPONENT_DIR], [
AS_CASE([$with_component_dir],
    [openmpi], [componentdir=$DW_OPENMPI_PLUGINS],
    [user], [componentdir=$HOME/.openmpi/components],
    [/*], [componentdir=$with_component_dir],
    [''|yes|no], [AS_IF([test "$prefix" = NONE && test -w "$DW_OPENMPI_PLUGINS"],
        [componentdir=$DW_OPENMPI_PLUGINS])],
    [AC_MSG_ERROR([--with-component-dir=$with_component_dir: give an absolute path, openmpi or user])])
AS_IF([test "$componentdir" = "$DW_OPENMPI_PLUGINS" ||
       test "$componentdir" = "$HOME/.openmpi/components"],
    [componentpath=], [componentpath=$componentdir])
AC_SUBST([componentpath])])

dnl HYPRE's structured solvers, for the SMG2000 benchmark. Optional.
AC_DEFUN([DW_HYPRE], [
HYPRE_CPPFLAGS=
HYPRE_LIBS=
dw_save_CPPFLAGS=$CPPFLAGS
dw_save_LIBS=$LIBS
for dir in /usr/include/hypre /usr/local/include/hypre /usr/include; do
    AS_IF([test "$dw_hypre" = no && test -f "$dir/HYPRE_struct_ls.h"], [
        CPPFLAGS="$dw_save_CPPFLAGS -isystem $dir $MPI_CPPFLAGS"
        LIBS="-lHYPRE $MPI_LIBS -lm $dw_save_LIBS"
        AC_MSG_CHECKING([for HYPRE's struct SMG solver with $dir])
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include "HYPRE_struct_ls.h"]],
            [[HYPRE_StructSolver solver; return HYPRE_StructSMGCreate(MPI_COMM_WORLD, &solver);]])],
            [AC_MSG_RESULT([yes])
             dw_hypre=yes
             HYPRE_CPPFLAGS="-isystem $dir"
             HYPRE_LIBS='-lHYPRE -lm'],
            [AC_MSG_RESULT([no])])])
done
CPPFLAGS=$dw_save_CPPFLAGS
LIBS=$dw_save_LIBS
AC_SUBST([HYPRE_CPPFLAGS])
AC_SUBST([HYPRE_LIBS])])
