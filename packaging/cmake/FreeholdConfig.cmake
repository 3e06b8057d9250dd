# find_package(Freehold) gives the target Freehold::freehold. This file lies in PREFIX/lib/cmake/Freehold.
get_filename_component(_freehold_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET Freehold::freehold)
  add_library(Freehold::freehold SHARED IMPORTED)
  set_target_properties(Freehold::freehold PROPERTIES
    IMPORTED_LOCATION "${_freehold_prefix}/lib/libfreehold.so.1"
    IMPORTED_SONAME "libfreehold.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_freehold_prefix}/include")
endif()
unset(_freehold_prefix)
