#!/bin/sh
# Installs the library for C and C++: crates/capi/install.sh [PREFIX], /usr/local if none is given.
#   lib/libfreehold.so.1   what programs load (and LD_PRELOAD names); .so is what they link
#   include/freehold.h, lib/pkgconfig/freehold.pc
# DESTDIR is put before every path, as packagers expect. LIBRARY names a library that is built already.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix=${1:-/usr/local}
# The pkg-config file names it to programs built anywhere.
case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
to=${DESTDIR:-}$prefix
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
if [ -z "${LIBRARY:-}" ]; then
  cd "$here"
  cargo rustc --quiet --lib --profile preload --features preload --crate-type cdylib
  LIBRARY=${CARGO_TARGET_DIR:-../../target}/preload/libfreehold_capi.so
fi
mkdir -p "$to/lib/pkgconfig" "$to/include"
# Beside and renamed: programs that run on the old one keep it.
cp "$LIBRARY" "$to/lib/.libfreehold.so.1.new"
chmod 755 "$to/lib/.libfreehold.so.1.new"
mv -f "$to/lib/.libfreehold.so.1.new" "$to/lib/libfreehold.so.1"
ln -sf libfreehold.so.1 "$to/lib/libfreehold.so"
cp "$here/include/freehold.h" "$to/include/freehold.h"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$here/freehold.pc.in" > "$to/lib/pkgconfig/freehold.pc"
echo "installed: $to/lib/libfreehold.so.1, version $version"
if [ -z "${DESTDIR:-}" ]; then
  echo "Linked programs find it by \`ldconfig\` where $prefix/lib is the loader's, else by LD_LIBRARY_PATH=$prefix/lib"
fi
