# ggml (and libllama, for the programs) from a llama.cpp tree.
#
# -DLLAMA_CPP_DIR names a tree. Without it third-party/llama.cpp is used, and
# fetched there when absent: pip brings the pinned sdist of llama-cpp-python,
# which holds llama.cpp whole. The folder is outside version control.
#
# Defines eg_ggml: ggml as a static library with system headers, the internal
# ones (ggml-impl.h, ggml-backend-impl.h) included.

set(EG_LLAMA_SDIST_VERSION 0.3.36)
set(EG_LLAMA_SDIST_SHA256 832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e)

# eg_fetch_llama_cpp(<folder>): leaves a whole tree at <folder> or nothing.
function(eg_fetch_llama_cpp folder)
  # A name of this process's own, so that two builds at once do not meet.
  string(RANDOM LENGTH 8 _suffix)
  set(_work "${folder}.${_suffix}")
  message(STATUS "Fetching llama.cpp (llama-cpp-python ${EG_LLAMA_SDIST_VERSION}, ~70 MB) ...")
  execute_process(
    COMMAND
      "${Python3_EXECUTABLE}" -m pip download --quiet --disable-pip-version-check --no-deps
      --no-binary llama-cpp-python --dest "${_work}"
      "llama-cpp-python==${EG_LLAMA_SDIST_VERSION}"
    RESULT_VARIABLE _result
  )
  if(NOT _result EQUAL 0)
    file(REMOVE_RECURSE "${_work}")
    message(
      FATAL_ERROR
        "pip could not fetch llama-cpp-python==${EG_LLAMA_SDIST_VERSION}. With no network, "
        "name a llama.cpp checkout: -DLLAMA_CPP_DIR=<folder>."
    )
  endif()
  set(_name "llama_cpp_python-${EG_LLAMA_SDIST_VERSION}")
  file(SHA256 "${_work}/${_name}.tar.gz" _sha256)
  if(NOT _sha256 STREQUAL EG_LLAMA_SDIST_SHA256)
    file(REMOVE_RECURSE "${_work}")
    message(
      FATAL_ERROR
        "${_name}.tar.gz has sha256 ${_sha256}, expected ${EG_LLAMA_SDIST_SHA256}; not used."
    )
  endif()
  message(STATUS "Unpacking llama.cpp into ${folder} ...")
  file(
    ARCHIVE_EXTRACT
    INPUT
    "${_work}/${_name}.tar.gz"
    DESTINATION
    "${_work}"
    PATTERNS
    "${_name}/vendor/llama.cpp/*"
  )
  file(RENAME "${_work}/${_name}/vendor/llama.cpp" "${folder}" RESULT _renamed)
  file(REMOVE_RECURSE "${_work}")
  # Another build may have put its tree there in the meantime: as good as ours.
  if(NOT _renamed EQUAL 0 AND NOT EXISTS "${folder}/ggml/CMakeLists.txt")
    message(FATAL_ERROR "Could not put llama.cpp at ${folder}: ${_renamed}")
  endif()
endfunction()

if(LLAMA_CPP_DIR)
  get_filename_component(EG_LLAMA_CPP_DIR "${LLAMA_CPP_DIR}" ABSOLUTE BASE_DIR "${CMAKE_BINARY_DIR}")
else()
  set(EG_LLAMA_CPP_DIR "${PROJECT_SOURCE_DIR}/third-party/llama.cpp")
  if(NOT EXISTS "${EG_LLAMA_CPP_DIR}/ggml/CMakeLists.txt")
    eg_fetch_llama_cpp("${EG_LLAMA_CPP_DIR}")
  endif()
endif()
if(NOT EXISTS "${EG_LLAMA_CPP_DIR}/ggml/CMakeLists.txt")
  message(
    FATAL_ERROR
      "No llama.cpp at ${EG_LLAMA_CPP_DIR} (ggml/CMakeLists.txt is missing). "
      "Check -DLLAMA_CPP_DIR, or leave it out to fetch the pinned one."
  )
endif()

# Defaults that a -D on the command line overrides.
set(GGML_OPENMP
    OFF
    CACHE BOOL "ggml: use OpenMP"
)
set(GGML_LLAMAFILE
    ON
    CACHE BOOL "ggml: fast CPU matrix products (llama.cpp sets it, ggml alone does not)"
)
set(GGML_CCACHE OFF) # ours is set already
set(GGML_ALL_WARNINGS OFF)
if(EXECUTORCH_GGML_PORTABLE)
  set(GGML_NATIVE OFF)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    foreach(_feature IN ITEMS SSE42 AVX AVX2 BMI2 FMA F16C)
      set(GGML_${_feature} ON)
    endforeach()
    unset(_feature)
  endif()
endif()

# In a function, so that what llama.cpp's build needs does not leak into ours.
function(eg_add_llama_cpp)
  set(BUILD_SHARED_LIBS OFF)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_C_VISIBILITY_PRESET hidden)
  # The fetched tree is no checkout: git would fail or report our commit as its own.
  if(NOT LLAMA_CPP_DIR)
    set(GIT_EXE OFF)
    find_program(_no_git false NO_CACHE)
    set(GIT_EXECUTABLE "${_no_git}")
  endif()
  if(EXECUTORCH_GGML_BUILD_LLAMA_RUNNER)
    set(LLAMA_BUILD_COMMON OFF)
    set(LLAMA_ALL_WARNINGS OFF)
    add_subdirectory("${EG_LLAMA_CPP_DIR}" "${CMAKE_BINARY_DIR}/llama.cpp" EXCLUDE_FROM_ALL SYSTEM)
  else()
    add_subdirectory(
      "${EG_LLAMA_CPP_DIR}/ggml" "${CMAKE_BINARY_DIR}/llama.cpp/ggml" EXCLUDE_FROM_ALL SYSTEM
    )
  endif()
endfunction()
message(STATUS "llama.cpp at ${EG_LLAMA_CPP_DIR}")
eg_add_llama_cpp()

# GCC's _tile_loadconfig() tells the compiler that it reads 8 of its 64 bytes, so
# dead-store elimination drops the rest of the tile shapes that ggml sets up, and the
# first AMX product of a 4- or 8-bit weight ends in an illegal instruction.
set(_mmq "${EG_LLAMA_CPP_DIR}/ggml/src/ggml-cpu/amx/mmq.cpp")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND EXISTS "${_mmq}")
  set_source_files_properties(
    "${_mmq}" TARGET_DIRECTORY ggml-cpu PROPERTIES COMPILE_OPTIONS "-fno-tree-dse;-fno-dse"
  )
endif()
unset(_mmq)

# ggml's debug assertions refuse NaN, which a program may well compute.
foreach(_target ggml-base ggml-cpu)
  target_compile_definitions(${_target} PRIVATE NDEBUG)
endforeach()
unset(_target)

add_library(eg_ggml INTERFACE)
target_link_libraries(eg_ggml INTERFACE ggml)
target_include_directories(
  eg_ggml SYSTEM INTERFACE "${EG_LLAMA_CPP_DIR}/ggml/include" "${EG_LLAMA_CPP_DIR}/ggml/src"
)
