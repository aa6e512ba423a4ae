# SPDX-License-Identifier: Apache-2.0
# Libraries we stand on, each found through pkg-config. docs/decisions.md says why each was chosen.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

# Not REQUIRED, which says what is missing in a message that --log-level=WARNING hides.
macro(handoff_library name module)
    pkg_check_modules(${name} IMPORTED_TARGET ${module})
    if(NOT ${name}_FOUND)
        message(FATAL_ERROR "pkg-config finds no ${module}: is its -dev package installed? (scripts/install-deps run test)")
    endif()
endmacro()

handoff_library(YYJSON yyjson)
handoff_library(MICROHTTPD libmicrohttpd>=0.9.75)
handoff_library(CURL libcurl)
handoff_library(SQLITE sqlite3>=3.40)
handoff_library(YAML yaml-0.1)
handoff_library(NETTLE nettle)
handoff_library(GNUTLS gnutls)
handoff_library(CRYPT libcrypt)
handoff_library(ZLIB zlib)

# libunistring comes without a file for pkg-config.
find_path(UNISTRING_INCLUDE uniwbrk.h)
find_library(UNISTRING_LIBRARY unistring)
if(NOT UNISTRING_INCLUDE OR NOT UNISTRING_LIBRARY)
    message(FATAL_ERROR "uniwbrk.h or libunistring is missing: is libunistring-dev installed? (scripts/install-deps run test)")
endif()
add_library(handoff_unistring INTERFACE)
target_include_directories(handoff_unistring SYSTEM INTERFACE "${UNISTRING_INCLUDE}")
target_link_libraries(handoff_unistring INTERFACE "${UNISTRING_LIBRARY}")
