#!/bin/sh
# Builds the image `freehold` by buildah, on bases of Debian packages and this machine's Rust, without a registry of images, and
# uses it as USE.md says: packaging/docker/on-debian.sh (as root; needs buildah and debootstrap; some ten minutes, some gigabytes).
set -eu
cd "$(dirname "$0")/../.."
# So that it also runs inside a container.
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# debian FOLDER PACKAGES: a small Debian, of the release whose glibc this machine's Rust needs or an earlier one.
debian() {
  debootstrap --variant=minbase --include="$2" bookworm "$1" > "$work/log" || { tail -n 5 "$work/log"; exit 1; }
}

# image NAME FOLDER CONFIGURATION: the folder as an image.
image() {
  name=$1
  container=$(buildah from scratch)
  buildah add --quiet "$container" "$2" / > /dev/null
  shift 2
  buildah config --env PATH=/usr/local/bin:/usr/bin:/bin "$@" "$container"
  buildah commit --quiet --rm "$container" "$name" > /dev/null
}

debian "$work/run" perl-base
image freehold-run "$work/run"
debian "$work/build" gcc,libc6-dev
rust=$(rustc --print sysroot)
cp -a "$rust/bin" "$rust/lib" "$work/build/usr/local"
mkdir -p "$work/build/usr/local/share/doc/rust" "$work/build/cargo/registry"
cp "$rust/share/doc/rust/COPYRIGHT-library.html" "$work/build/usr/local/share/doc/rust"
image freehold-build "$work/build" --env CARGO_HOME=/cargo --env CARGO_NET_OFFLINE=true
rm -rf "$work/run" "$work/build"

# The crates are this machine's: what is built needs no network.
cargo fetch --locked --target x86_64-unknown-linux-gnu
buildah build --quiet --build-arg BUILD=localhost/freehold-build --build-arg RUN=localhost/freehold-run \
  --volume "${CARGO_HOME:-$HOME/.cargo}/registry:/cargo/registry:ro" \
  --tag freehold --ignorefile packaging/docker/Dockerfile.dockerignore \
  --file packaging/docker/Dockerfile .

# A service's own Dockerfile.
cat > "$work/Dockerfile" << 'SERVICE'
FROM localhost/freehold-run
COPY --from=localhost/freehold /usr/local/lib/libfreehold.so.1 /usr/local/lib/
COPY --from=localhost/freehold /usr/local/share/doc/libfreehold /usr/local/share/doc/libfreehold
ENV LD_PRELOAD=/usr/local/lib/libfreehold.so.1 FREEHOLD_LIMIT=auto
SERVICE
buildah build --quiet --tag freehold-service --file "$work/Dockerfile" "$work"
service=$(buildah from localhost/freehold-service)
buildah run "$service" -- grep libfreehold.so.1 /proc/self/maps
buildah run "$service" -- perl -e 'print "served\n"'
command=$(buildah from localhost/freehold)
buildah run "$command" -- freehold record -o /tmp/ls.fht -- ls /usr/local/share/doc/freehold /usr/local/share/doc/libfreehold
buildah run "$command" -- freehold replay /tmp/ls.fht --on best-fit,malloc,glibc
buildah rm "$service" "$command" > /dev/null
echo "the image: localhost/freehold"
