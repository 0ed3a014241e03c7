# Given to llama.cpp's own build as CMAKE_PROJECT_INCLUDE: the one flag that it needs.
#
# GCC's dead-store elimination drops most of the tile shapes that ggml loads for AMX,
# and the first product of a quantized weight ends in an illegal instruction. The
# runtime builds that file in the same way (cmake/LlamaCpp.cmake).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT EG_DEFERRED)
  set(EG_DEFERRED ON)
  cmake_language(
    DEFER DIRECTORY "${CMAKE_SOURCE_DIR}" CALL set_source_files_properties
    "${CMAKE_SOURCE_DIR}/ggml/src/ggml-cpu/amx/mmq.cpp" TARGET_DIRECTORY ggml-cpu PROPERTIES
    COMPILE_OPTIONS "-fno-tree-dse;-fno-dse"
  )
endif()
