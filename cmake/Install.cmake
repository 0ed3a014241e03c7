# The installed CMake package: find_package(executorch_ggml), target
# executorch_ggml::runtime. The same tree is an install prefix
# (lib/, include/, share/cmake/executorch_ggml/) and, in a wheel, the Python
# package's folder.
include(CMakePackageConfigHelpers)

set(_package_dir share/cmake/executorch_ggml)

install(
  TARGETS executorch_ggml_runtime
  EXPORT executorch_ggml_targets
  COMPONENT runtime
  LIBRARY DESTINATION lib
  RUNTIME DESTINATION lib
  ARCHIVE DESTINATION lib
)
install(
  DIRECTORY runtime/include/
  DESTINATION include
  COMPONENT runtime
  FILES_MATCHING
  PATTERN "*.h"
)
install(
  EXPORT executorch_ggml_targets
  NAMESPACE executorch_ggml::
  FILE executorch_ggml-targets.cmake
  DESTINATION ${_package_dir}
  COMPONENT runtime
)
configure_package_config_file(
  cmake/executorch_ggml-config.cmake.in "${CMAKE_BINARY_DIR}/executorch_ggml-config.cmake"
  INSTALL_DESTINATION ${_package_dir} NO_SET_AND_CHECK_MACRO
)
write_basic_package_version_file(
  "${CMAKE_BINARY_DIR}/executorch_ggml-config-version.cmake" COMPATIBILITY SameMinorVersion
)
install(
  FILES "${CMAKE_BINARY_DIR}/executorch_ggml-config.cmake"
        "${CMAKE_BINARY_DIR}/executorch_ggml-config-version.cmake"
  DESTINATION ${_package_dir}
  COMPONENT runtime
)
install(
  FILES LICENSE NOTICE
  DESTINATION share/licenses/executorch_ggml
  COMPONENT runtime
)
install(
  FILES "${EG_LLAMA_CPP_DIR}/LICENSE"
  DESTINATION share/licenses/executorch_ggml
  RENAME LICENSE.llama.cpp
  COMPONENT runtime
)
unset(_package_dir)
