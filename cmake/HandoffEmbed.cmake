# SPDX-License-Identifier: Apache-2.0
# handoff_embed(HEADER NAME FILE [NAME FILE ...]): writes a header with a NUL-terminated array for
# each file, at configure time and again when one of them changes.
function(handoff_embed header)
    set(text "/* Written by HandoffEmbed.cmake. */\n")
    while(ARGN)
        list(POP_FRONT ARGN name file)
        file(READ "${file}" bytes HEX)
        string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
        string(APPEND text "static const char ${name}[] = {${bytes}0};\n")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    endwhile()
    file(CONFIGURE OUTPUT "${header}" CONTENT "${text}" @ONLY)
endfunction()
