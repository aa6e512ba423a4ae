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

# build_sidecar: the release build of what ./scripts/run and ./scripts/demo start. Where it will be
# installed it finds its vocabularies by itself; from the build tree it has to be told.
build_sidecar() {
    "$top/scripts/npm-install" || say "tokens will be estimated, for lack of the vocabularies"
    # The tests are built by ./scripts/test; here they may lack their library, and then stay out.
    local testing=OFF
    if pkg-config --exists cmocka; then testing=ON; fi
    build_tree release "handoff-exporter handoffctl handoff_vocabularies" -DBUILD_TESTING="$testing"
    export HANDOFF_VOCABULARY_DIR=${HANDOFF_VOCABULARY_DIR:-$top/build/release/vocabulary}
}

# build_tree PRESET TARGETS [CMAKE OPTION...]: configures and builds build/PRESET. TARGETS is a list
# in one word; "all" builds everything.
build_tree() {
    local preset=$1 targets
    read -ra targets <<<"$2"
    shift 2
    say "building build/$preset"
    (cd "$top" && cmake --preset "$preset" --log-level=WARNING "$@" >/dev/null &&
        cmake --build --preset "$preset" -j "$jobs" --target "${targets[@]}") >&2 ||
        die "the $preset build failed; its errors are above"
}
