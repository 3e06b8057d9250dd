# Untested. Builds the sources that this port lies in; needs cargo.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_program(CARGO cargo REQUIRED)
vcpkg_execute_required_process(
  COMMAND "${CMAKE_COMMAND}" -E env "CARGO_TARGET_DIR=${CURRENT_BUILDTREES_DIR}/target"
    sh "${SOURCE_PATH}/crates/capi/install.sh" "${CURRENT_PACKAGES_DIR}"
  WORKING_DIRECTORY "${SOURCE_PATH}"
  LOGNAME install-${TARGET_TRIPLET})
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
  message(STATUS "freehold installs both libraries; Freehold::freehold_static is the static one")
endif()
vcpkg_cmake_config_fixup(PACKAGE_NAME Freehold CONFIG_PATH lib/cmake/Freehold)
vcpkg_fixup_pkgconfig()
set(VCPKG_POLICY_MISMATCHED_NUMBER_OF_BINARIES enabled)
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE-MIT" "${SOURCE_PATH}/LICENSE-APACHE")
