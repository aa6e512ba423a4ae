# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where for programs that use the metrics alone: libprom (the core of
# metric.h and the interface of prom.h) and libpromhttp, each as a shared and as a static library,
# their headers, prom.pc and promhttp.pc. Neither needs anything else of the house.
# `cmake --install build --component prom` installs these and nothing else.

# prom_exports(TEXT HEADER ...): the names that the headers declare, as lines of a version script.
# Read from the headers, so that there is no second list to forget.
function(prom_exports text)
    set(exports "")
    foreach(header IN LISTS ARGN)
        file(STRINGS "${header}" declarations
             REGEX "^([a-z].*[ *])?(metric|prom|promhttp)_[a-z0-9_]+\\(|^extern .*;")
        foreach(declaration IN LISTS declarations)
            if(declaration MATCHES "^(typedef|static) ")
                continue()
            endif()
            string(REGEX REPLACE "^extern .*[ *]([A-Za-z_]+);.*" "\\1" name "${declaration}")
            string(REGEX REPLACE "^([^(]*[ *])?((metric|prom|promhttp)_[a-z0-9_]+)\\(.*" "\\2" name "${name}")
            string(APPEND exports "        ${name};\n")
        endforeach()
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${header}")
    endforeach()
    set(${text} "${exports}" PARENT_SCOPE)
endfunction()

# prom_shared(NAME ARCHIVE SCRIPT LIBRARY ...): the archive as a shared library, all of it, with the
# symbols of the version script.
function(prom_shared name archive script)
    add_library(${name}_shared SHARED "${PROJECT_SOURCE_DIR}/lib/prom/prom.h")
    set_target_properties(${name}_shared PROPERTIES
        OUTPUT_NAME ${name} LINKER_LANGUAGE C LINK_DEPENDS "${script}"
        VERSION "${PROJECT_VERSION}" SOVERSION "${soversion}")
    target_link_libraries(${name}_shared PRIVATE
        handoff_build -Wl,--whole-archive $<TARGET_FILE:${archive}> -Wl,--no-whole-archive ${ARGN})
    # Calls inside the library go straight to their function; nobody replaces one of them. It stays
    # mapped when a plugin that uses it is closed: a thread that counted returns its slot when it ends.
    target_link_options(${name}_shared PRIVATE
        "-Wl,--version-script=${script}" -Wl,--as-needed -Wl,-Bsymbolic-functions -Wl,-z,nodelete)
    if(NOT HANDOFF_SANITIZE) # whose symbols come from the program
        target_link_options(${name}_shared PRIVATE -Wl,--no-undefined)
    endif()
    add_dependencies(${name}_shared ${archive})
endfunction()

file(GLOB PROM_HEADERS CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/lib/prom/prom*.h")
set(METRIC_HEADER "${PROJECT_SOURCE_DIR}/lib/metrics/metric.h")
set(PROMHTTP_HEADER "${PROJECT_SOURCE_DIR}/lib/promhttp/promhttp.h")

# Until 1.0 every minor version may change the interface, so it is part of the SONAME.
set(soversion "${PROJECT_VERSION_MAJOR}")
if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(soversion "0.${PROJECT_VERSION_MINOR}")
endif()

prom_exports(metric_names "${METRIC_HEADER}")
prom_exports(prom_names ${PROM_HEADERS})
prom_exports(promhttp_names "${PROMHTTP_HEADER}")
set(version "${PROJECT_VERSION_MAJOR}")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/libprom.map" @ONLY CONTENT
"METRIC_@version@ {\n    global:\n@metric_names@};\nPROM_@version@ {\n    global:\n@prom_names@    local: *;\n};\n")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/libpromhttp.map" @ONLY CONTENT
"PROMHTTP_@version@ {\n    global:\n@promhttp_names@    local: *;\n};\n")
prom_shared(prom handoff_metrics "${PROJECT_BINARY_DIR}/libprom.map" PkgConfig::YYJSON Threads::Threads m)
prom_shared(promhttp handoff_promhttp "${PROJECT_BINARY_DIR}/libpromhttp.map"
    prom_shared PkgConfig::MICROHTTPD PkgConfig::ZLIB Threads::Threads)

# What the component needs, and nothing else of the house: `cmake --build build --target prom`.
add_custom_target(prom DEPENDS prom_shared promhttp_shared handoff_metrics handoff_promhttp)
install(TARGETS prom_shared promhttp_shared handoff_metrics handoff_promhttp
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT prom NAMELINK_COMPONENT prom
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT prom)
install(FILES ${PROM_HEADERS} "${METRIC_HEADER}" "${PROMHTTP_HEADER}"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT prom)
# Written when the prefix is known, as handoff.pc.
install(CODE "
    set(PROJECT_VERSION \"${PROJECT_VERSION}\")
    set(CMAKE_INSTALL_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
    set(CMAKE_INSTALL_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
    set(HANDOFF_PACKAGING \"${PROJECT_SOURCE_DIR}/packaging\")
    set(HANDOFF_CONFIGURED prom.pc promhttp.pc)" COMPONENT prom)
install(SCRIPT "${PROJECT_SOURCE_DIR}/cmake/HandoffPrefix.cmake" COMPONENT prom)
