# shellcheck shell=bash disable=SC2034,SC2054
# Sets the environment of release builds and defines `cross`, which builds for one target. .ci/release and
# .ci/release-client source this file in the root of the repository.

step() { printf '\n== %s\n' "$*"; "$@"; }

# The caller's environment must not change the build.
for variable in $(compgen -e | grep -E '^(CARGO_(BUILD|PROFILE|TARGET|ENCODED|UNSTABLE)|(TARGET_|HOST_)?C(XX)?FLAGS|LDFLAGS|RUSTFLAGS$|RUSTC|SDKROOT$)' || true); do
  unset "$variable"
done
root=$PWD
target=$root/target/release-build
cargo_home=${CARGO_HOME:-$HOME/.cargo}
sysroot=$(rustc --print sysroot)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CARGO_INCREMENTAL=0

# Zig can link against an old glibc on any machine, and includes a C compiler and the system libraries of all targets.
pins=(cargo-zigbuild==0.24.1 ziglang==0.17.1)
tools=$target/tools/$(cksum <<< "${pins[*]}" | cut -d ' ' -f 1)
if [ ! -e "$tools/complete" ]; then
  python3 -m venv --clear "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check "${pins[@]}"
  touch "$tools/complete"
fi
zig=$(echo "$tools"/lib/python3*/site-packages/ziglang)
export PATH=$tools/bin:$PATH CARGO_ZIGBUILD_CACHE_DIR=$target/zigbuild ZIG_GLOBAL_CACHE_DIR=$target/zig

# Keeps this machine's paths out of the binaries. If the sources of the standard library are installed, maps their paths
# to those in Rust's own builds. Debian installs the sources behind a symbolic link.
sources=$sysroot/lib/rustlib/src/rust
name=/rustc/$(rustc --verbose --version | sed -n 's/^commit-hash: //p')
RUSTFLAGS="--remap-path-prefix=$cargo_home=/cargo --remap-path-prefix=$sources=$name"
RUSTFLAGS+=" --remap-path-prefix=$(readlink --canonicalize-missing "$sources")=$name --remap-path-prefix=$root=."
CFLAGS="-ffile-prefix-map=$cargo_home=/cargo -ffile-prefix-map=$root=."
export RUSTFLAGS CFLAGS

# Builds for a target: cross TARGET ARGUMENT... The target may end with a version of glibc.
cross() {
  local rust=${1%.2.*} flags=$RUSTFLAGS
  local build=(cargo zigbuild --locked --release --target-dir "$target" --target "$1")
  if [ ! -d "$sysroot/lib/rustlib/$rust/lib" ]; then
    if [ ! -d "$sources/library/std" ]; then
      echo "There is no standard library for $rust. Install it with 'rustup target add $rust'," >&2
      echo "or install its source with 'rustup component add rust-src'." >&2
      exit 1
    fi
    # Allows the unstable option.
    build=(env RUSTC_BOOTSTRAP=1 "${build[@]}" -Zbuild-std=std,panic_unwind)
    # The target's musl objects are missing, too, so those of Zig are used.
    if [[ $rust == *-musl ]]; then flags+=" -Clink-self-contained=no"; fi
  fi
  RUSTFLAGS=$flags step "${build[@]}" "${@:2}"
}

# Fails if one of these files contains a path of this machine.
check_paths() {
  local leaks
  leaks=$(grep -laF -e "$root/" -e "$HOME/" -e "$cargo_home/" -e "$sysroot/lib/rustlib/" "$@") || [ $? = 1 ]
  if [ -n "$leaks" ]; then
    echo "These files contain paths of this machine:" "$leaks" >&2
    exit 1
  fi
}

# Copies the license of the standard library, whose location depends on the toolchain.
copy_library_licence() {
  local file
  for file in "$sysroot"/share/doc/rust/COPYRIGHT-library.html "$sysroot"/share/doc/libstd-rust-*/copyright; do
    if [ -e "$file" ]; then
      cp "$file" "$1/rust-library.${file##*[./]}"
      return
    fi
  done
  echo "The license of the standard library is not in $sysroot/share/doc." >&2
  exit 1
}
