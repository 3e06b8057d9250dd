#!/bin/sh
# Installs the library for C and C++: crates/capi/install.sh [PREFIX], /usr/local if none is given.
#   lib/libfreehold.so.1           what programs load (and LD_PRELOAD names); .so is what they link
#   lib/libfreehold.a              the same to be linked into a program
#   include/freehold.h, lib/pkgconfig/freehold.pc, lib/cmake/Freehold/*.cmake
#   share/doc/libfreehold/         our licences, and the notices of what is in the library besides our code: Rust's standard library,
#                                  which has the crate libc, too
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
documents=$to/share/doc/libfreehold

uninstall() {
  rm -f "$lib/libfreehold.so.1" "$lib/libfreehold.so" "$lib/libfreehold.a" "$to/include/freehold.h" "$lib/pkgconfig/freehold.pc" \
    "$lib/cmake/Freehold/FreeholdConfig.cmake" "$lib/cmake/Freehold/FreeholdConfigVersion.cmake" \
    "$documents/LICENSE-APACHE" "$documents/LICENSE-MIT" "$documents/RUST-LIBRARY.html"
  # Empty folders go, too, but not the system's own. That others use them is no failure.
  rmdir "$lib/cmake/Freehold" 2>/dev/null || :
  rmdir "$documents" 2>/dev/null || :
  case $prefix in
    /usr | /usr/local) ;;
    *) rmdir "$lib/cmake" "$lib/pkgconfig" "$lib" "$to/include" "$to/share/doc" "$to/share" "$to" 2>/dev/null || : ;;
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

# Whoever passes the library on passes them on, too.
install_notices() {
  for licence in LICENSE-APACHE LICENSE-MIT; do
    put 644 "$here/../../$licence" "$documents/$licence"
  done
  notices=$(cd "$here" && rustc --print sysroot || :)/share/doc/rust/COPYRIGHT-library.html
  if [ -f "$notices" ]; then
    put 644 "$notices" "$documents/RUST-LIBRARY.html"
  else
    echo "install.sh: this rustc comes without $notices: before you pass the library on, add the notices of Rust's standard library" >&2
  fi
}

install() {
  version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
  library=${LIBRARY:-$(build cdylib preload libfreehold_capi.so)}
  archive=${ARCHIVE:-$(build staticlib archive libfreehold_capi.a)}
  put 755 "$library" "$lib/libfreehold.so.1"
  ln -sf libfreehold.so.1 "$lib/libfreehold.so"
  put 644 "$archive" "$lib/libfreehold.a"
  put 644 "$here/include/freehold.h" "$to/include/freehold.h"
  install_notices
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
