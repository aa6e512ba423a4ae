# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Shared by the scripts beside it: where we are, how we speak, how we build.
# Sourced, not run: set -euo pipefail is the caller's.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# One voice for all scripts, on stderr, so that stdout stays the program's.
say() { printf '==> %s\n' "$*" >&2; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

jobs=${HANDOFF_JOBS:-$(nproc)}

# ccache, where present, is picked up by CMake through this variable at the first configuration.
if [ -z "${CMAKE_C_COMPILER_LAUNCHER:-}" ] && command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache
fi

# build_sidecar: the release build of what ./scripts/run and ./scripts/demo start, and of all that
# `cmake --install` takes.
build_sidecar() {
    "$top/scripts/npm-install" || say "tokens will be estimated, for lack of the vocabularies"
    # The tests are built by ./scripts/test; here they may lack their library, and then stay out.
    local testing=OFF
    if pkg-config --exists cmocka; then testing=ON; fi
    try_to_build release installed -DBUILD_TESTING="$testing" && return
    # ./scripts/test made warnings errors in this tree. To turn that off compiles all of it again, so it is
    # done only when a warning may have stopped the build.
    grep -qx 'HANDOFF_WERROR:BOOL=ON' "$top/build/release/CMakeCache.txt" 2>/dev/null ||
        die "the release build failed; its errors are above"
    say "again, without warnings as errors"
    build_tree release installed -DBUILD_TESTING="$testing" -DHANDOFF_WERROR=OFF
}

# build_tree PRESET TARGETS [CMAKE OPTION...]: configures and builds build/PRESET. TARGETS is a list
# in one word; "all" builds everything.
build_tree() {
    try_to_build "$@" || die "the $1 build failed; its errors are above"
}

try_to_build() {
    local preset=$1 targets
    read -ra targets <<<"$2"
    shift 2
    say "building build/$preset"
    (cd "$top" && cmake --preset "$preset" --log-level=WARNING "$@" >/dev/null &&
        cmake --build --preset "$preset" -j "$jobs" --target "${targets[@]}") >&2
}
