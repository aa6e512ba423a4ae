# SPDX-License-Identifier: Apache-2.0
# How our own code is compiled: language level, warnings, sanitizers. Everything hangs on the
# interface target handoff_build, which our targets link privately, so nothing of it is exported.

# Off unless asked for: each compiler finds other things, and a user's build must not end at a warning.
# scripts/test turns it on.
option(HANDOFF_WERROR "Treat warnings in our own code as errors" OFF)
option(HANDOFF_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
set(HANDOFF_SANITIZE "" CACHE STRING "Sanitizers for our own code: address,undefined or thread")
set(HANDOFF_VARIANT "${CMAKE_BUILD_TYPE}" CACHE STRING
    "Name of this build tree; test names begin with it, so that several trees share one ctest run")
string(TOLOWER "${HANDOFF_VARIANT}" HANDOFF_VARIANT)

add_library(handoff_build INTERFACE)
target_compile_features(handoff_build INTERFACE c_std_11)
target_compile_definitions(handoff_build INTERFACE _GNU_SOURCE)
target_compile_options(handoff_build INTERFACE
    -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
    -Wvla -fno-common -fstack-protector-strong
    $<$<BOOL:${HANDOFF_WERROR}>:-Werror>)
# The other public headers are installed beside handoff.h, which includes them by name alone.
target_include_directories(handoff_build INTERFACE "${PROJECT_SOURCE_DIR}"
    "${PROJECT_SOURCE_DIR}/client/model" "${PROJECT_SOURCE_DIR}/lib/base"
    "${PROJECT_SOURCE_DIR}/lib/tokens")
target_link_options(handoff_build INTERFACE -Wl,-z,relro -Wl,-z,now)

if(HANDOFF_SANITIZE)
    target_compile_options(handoff_build INTERFACE
        -fsanitize=${HANDOFF_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g)
    target_link_options(handoff_build INTERFACE -fsanitize=${HANDOFF_SANITIZE})
endif()
if(HANDOFF_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "HANDOFF_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang")
    endif()
    target_compile_options(handoff_build INTERFACE -fsanitize=fuzzer-no-link)
endif()
