# SPDX-License-Identifier: Apache-2.0
# Run by `cmake --install`, after the install(CODE) of HandoffInstall.cmake or PromInstall.cmake: writes
# the files that name the prefix, which `cmake --install --prefix` may have changed since the
# configuration. They are written where they belong, not in the build tree, so that two installations
# at once do not meet there. HANDOFF_CONFIGURED: the names of these files.
get_filename_component(HANDOFF_PREFIX "${CMAKE_INSTALL_PREFIX}" ABSOLUTE)
get_filename_component(HANDOFF_BINDIR "${CMAKE_INSTALL_BINDIR}" ABSOLUTE BASE_DIR "${HANDOFF_PREFIX}")
get_filename_component(libdir "${CMAKE_INSTALL_LIBDIR}" ABSOLUTE BASE_DIR "${HANDOFF_PREFIX}")

function(install_configured source destination)
    message(STATUS "Installing: $ENV{DESTDIR}${destination}")
    configure_file("${HANDOFF_PACKAGING}/${source}" "$ENV{DESTDIR}${destination}" @ONLY NO_SOURCE_PERMISSIONS)
    set(CMAKE_INSTALL_MANIFEST_FILES ${CMAKE_INSTALL_MANIFEST_FILES} "${destination}" PARENT_SCOPE)
endfunction()

foreach(name IN LISTS HANDOFF_CONFIGURED)
    if(name MATCHES "\\.pc$")
        install_configured("${name}.in" "${libdir}/pkgconfig/${name}")
    else()
        install_configured("systemd/${name}" "${HANDOFF_PREFIX}/lib/systemd/system/${name}")
    endif()
endforeach()
