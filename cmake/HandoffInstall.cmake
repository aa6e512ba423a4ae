# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where, for programs that embed the client: its headers, libhandoff as a
# shared and as a static library, handoff.pc; and the systemd units. The two programs install
# themselves in their rooms.

# The shared library is the static one, all of it, with only those symbols visible that the public
# headers declare. The names are read from the header, so there is no second list to forget.
set(HANDOFF_PUBLIC_HEADERS
    "${PROJECT_SOURCE_DIR}/client/handoff.h"
    "${PROJECT_SOURCE_DIR}/client/model/handoff_model.h"
    "${PROJECT_SOURCE_DIR}/client/model/handoff_model.def"
    "${PROJECT_SOURCE_DIR}/lib/base/handoff_error.h"
    "${PROJECT_SOURCE_DIR}/lib/base/handoff_codes.def"
    "${PROJECT_SOURCE_DIR}/lib/tokens/handoff_tokens.h")
set(exports "")
foreach(header IN LISTS HANDOFF_PUBLIC_HEADERS)
    file(STRINGS "${header}" declarations REGEX "^([a-z].*[ *])?handoff_[a-z0-9_]+\\(")
    foreach(declaration IN LISTS declarations)
        if(declaration MATCHES "^(typedef|static) ")
            continue()
        endif()
        string(REGEX REPLACE "^([^(]*[ *])?(handoff_[a-z0-9_]+)\\(.*" "\\2" name "${declaration}")
        string(APPEND exports "        ${name};\n")
    endforeach()
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${HANDOFF_PUBLIC_HEADERS})
set(exports_file "${PROJECT_BINARY_DIR}/libhandoff.map")
file(CONFIGURE OUTPUT "${exports_file}"
     CONTENT "HANDOFF_${PROJECT_VERSION_MAJOR} {\n    global:\n@exports@    local: *;\n};\n" @ONLY)

# What the client links, taken from its target: for the shared library, and by name for handoff.pc.
get_target_property(libraries handoff_client INTERFACE_LINK_LIBRARIES)
list(FILTER libraries EXCLUDE REGEX "LINK_ONLY") # how we compile, which is nobody else's business
set(HANDOFF_REQUIRES "")
foreach(library IN LISTS libraries)
    if(library MATCHES "^PkgConfig::(.*)$")
        list(APPEND HANDOFF_REQUIRES "${${CMAKE_MATCH_1}_MODULE_NAME}")
    endif()
endforeach()

# Until 1.0 every minor version may change the interface, so it is part of the SONAME.
set(soversion "${PROJECT_VERSION_MAJOR}")
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(soversion "0.${PROJECT_VERSION_MINOR}")
endif()

add_library(handoff_shared SHARED "${PROJECT_SOURCE_DIR}/client/handoff.h")
set_target_properties(handoff_shared PROPERTIES
    OUTPUT_NAME handoff LINKER_LANGUAGE C LINK_DEPENDS "${exports_file}"
    VERSION "${PROJECT_VERSION}" SOVERSION "${soversion}")
target_link_libraries(handoff_shared PRIVATE
    handoff_build -Wl,--whole-archive $<TARGET_FILE:handoff_client> -Wl,--no-whole-archive
    ${libraries})
target_link_options(handoff_shared PRIVATE "-Wl,--version-script=${exports_file}" -Wl,--as-needed)
add_dependencies(handoff_shared handoff_client)

list(JOIN HANDOFF_REQUIRES ", " HANDOFF_REQUIRES)

install(TARGETS handoff_shared handoff_client
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(FILES ${HANDOFF_PUBLIC_HEADERS}
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
file(GLOB sockets "${PROJECT_SOURCE_DIR}/packaging/systemd/*.socket")
install(FILES ${sockets} DESTINATION lib/systemd/system)
# What the two files that name the prefix are made of; the script runs when the prefix is known.
install(CODE "
    set(PROJECT_VERSION \"${PROJECT_VERSION}\")
    set(HANDOFF_REQUIRES \"${HANDOFF_REQUIRES}\")
    set(CMAKE_INSTALL_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
    set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
    set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
    set(HANDOFF_PACKAGING \"${PROJECT_SOURCE_DIR}/packaging\")
    set(HANDOFF_CONFIGURED handoff.pc handoff-exporter.service)")
install(SCRIPT "${PROJECT_SOURCE_DIR}/cmake/HandoffPrefix.cmake")
