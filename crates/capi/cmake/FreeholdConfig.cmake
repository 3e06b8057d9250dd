# find_package(Freehold) gives the targets Freehold::freehold, the shared library, and Freehold::freehold_static.
get_filename_component(_freehold_prefix "${CMAKE_CURRENT_LIST_DIR}/@UP@" ABSOLUTE)
if(NOT TARGET Freehold::freehold)
  add_library(Freehold::freehold SHARED IMPORTED)
  set_target_properties(Freehold::freehold PROPERTIES
    IMPORTED_LOCATION "${_freehold_prefix}/@LIBDIR@/libfreehold.so.1"
    IMPORTED_SONAME "libfreehold.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_freehold_prefix}/include")
  add_library(Freehold::freehold_static STATIC IMPORTED)
  set_target_properties(Freehold::freehold_static PROPERTIES
    IMPORTED_LOCATION "${_freehold_prefix}/@LIBDIR@/libfreehold.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_freehold_prefix}/include")
endif()
unset(_freehold_prefix)
