# SPDX-License-Identifier: Apache-2.0
# Run at every build: writes OUTPUT with the revision of SOURCE, and only when it has changed, so
# that a build without changes stays one. Without git, or outside a clone, the revision is "".
cmake_minimum_required(VERSION 3.22)
set(revision "${REVISION}")
if(revision STREQUAL "")
    execute_process(COMMAND git -C "${SOURCE}" describe --always --dirty --exclude=* --abbrev=12
        OUTPUT_VARIABLE revision OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(failed)
        set(revision "")
    endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" @ONLY
     CONTENT "/* Written by HandoffRevision.cmake. */\n#define HANDOFF_REVISION \"@revision@\"\n")
