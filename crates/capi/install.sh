#!/bin/sh
# Installs the library for C and C++: crates/capi/install.sh [PREFIX], /usr/local if none is given.
#   lib/libfreehold.so.1           what programs load (and LD_PRELOAD names); .so is what they link
#   lib/libfreehold.a              the same to be linked into a program
#   include/freehold.h, lib/pkgconfig/freehold.pc, lib/cmake/Freehold/*.cmake
# Takes it away again: crates/capi/install.sh --uninstall [PREFIX], with the same DESTDIR and LIBDIR.
# DESTDIR is put before every path, as packagers expect. LIBDIR is another folder than lib, beneath PREFIX. LIBRARY and ARCHIVE name
# libraries that are built already.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
action=install
if [ "${1:-}" = --uninstall ]; then
  action=uninstall
  shift
fi
prefix=${1:-/usr/local}
case $prefix in
  # The pkg-config file names it to programs built anywhere.
  /*) ;;
  -*) echo "install.sh: $prefix is no folder; install.sh [--uninstall] [PREFIX]" >&2; exit 2 ;;
  *) prefix=$PWD/$prefix ;;
esac
libdir=${LIBDIR:-lib}
to=${DESTDIR:-}$prefix
lib=$to/$libdir

uninstall() {
  rm -f "$lib/libfreehold.so.1" "$lib/libfreehold.so" "$lib/libfreehold.a" "$to/include/freehold.h" "$lib/pkgconfig/freehold.pc" \
    "$lib/cmake/Freehold/FreeholdConfig.cmake" "$lib/cmake/Freehold/FreeholdConfigVersion.cmake"
  # Empty folders go, too, but not the system's own. That others use them is no failure.
  rmdir "$lib/cmake/Freehold" 2>/dev/null || :
  case $prefix in
    /usr | /usr/local) ;;
    *) rmdir "$lib/cmake" "$lib/pkgconfig" "$lib" "$to/include" "$to" 2>/dev/null || : ;;
  esac
  echo "uninstalled: $lib/libfreehold.so.1"
}

# Builds one kind of library, if its file is not named already.
build() {
  (cd "$here" && cargo rustc --quiet --lib --profile preload --features "$2" --crate-type "$1") >&2
  echo "$(cd "$here" && cd "${CARGO_TARGET_DIR:-../../target}" && pwd)/preload/$3"
}

# Beside and renamed: programs that run on the old one keep it.
put() {
  mkdir -p "$(dirname "$3")"
  cp "$2" "$3.new"
  chmod "$1" "$3.new"
  mv -f "$3.new" "$3"
}

install() {
  version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
  library=${LIBRARY:-$(build cdylib preload libfreehold_capi.so)}
  archive=${ARCHIVE:-$(build staticlib archive libfreehold_capi.a)}
  put 755 "$library" "$lib/libfreehold.so.1"
  ln -sf libfreehold.so.1 "$lib/libfreehold.so"
  put 644 "$archive" "$lib/libfreehold.a"
  put 644 "$here/include/freehold.h" "$to/include/freehold.h"
  up=$(echo "$libdir/cmake/Freehold" | sed 's|[^/][^/]*|..|g')
  for file in "$here/freehold.pc.in:pkgconfig/freehold.pc" \
    "$here/cmake/FreeholdConfig.cmake:cmake/Freehold/FreeholdConfig.cmake" \
    "$here/cmake/FreeholdConfigVersion.cmake:cmake/Freehold/FreeholdConfigVersion.cmake"; do
    filled=$(sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$libdir|" -e "s|@UP@|$up|" -e "s|@VERSION@|$version|" "${file%%:*}")
    mkdir -p "$(dirname "$lib/${file##*:}")"
    echo "$filled" > "$lib/${file##*:}"
    chmod 644 "$lib/${file##*:}"
  done
  echo "installed: $lib/libfreehold.so.1, version $version"
  if [ -z "${DESTDIR:-}" ]; then
    echo "Linked programs find it by \`ldconfig\` where $prefix/$libdir is the loader's, else by LD_LIBRARY_PATH=$prefix/$libdir"
  fi
}

$action
