# Every option of the build, in one place. The GGML_* options (GGML_CUDA,
# GGML_METAL, GGML_VULKAN, ...) are ggml's own and are passed through.

option(EXECUTORCH_GGML_BUILD_TESTS "Build the C++ tests (needs GoogleTest)" OFF)
option(EXECUTORCH_GGML_BUILD_LLAMA_RUNNER
       "Build libllama and the programs benchmark_llm and run_llm" OFF
)
option(EXECUTORCH_GGML_BUILD_EXAMPLES "Build the example program classify_image" OFF)
option(EXECUTORCH_GGML_PORTABLE
       "Build for a portable CPU floor (x86-64-v3 on x86) instead of for this machine" OFF
)
set(EXECUTORCH_GGML_SANITIZE
    ""
    CACHE STRING "Sanitizers to build with: address,undefined or thread"
)
set(EXECUTORCH_DIR
    ""
    CACHE PATH "ExecuTorch: a site-packages/executorch folder or an install prefix"
)
set(LLAMA_CPP_DIR
    ""
    CACHE PATH "A llama.cpp checkout; empty: the pinned one, fetched into third-party/"
)
# Inside `pip install .` the environment that will run the library is not
# complete yet, so the pinned wheel is fetched to link against.
if(DEFINED SKBUILD)
  set(_fetch_default ON)
else()
  set(_fetch_default OFF)
endif()
option(EXECUTORCH_GGML_FETCH_EXECUTORCH
       "Fetch the executorch wheel with pip when it is not installed" ${_fetch_default}
)
unset(_fetch_default)

# A compiler cache makes the second build short; it is used where it is found.
find_program(EXECUTORCH_GGML_CCACHE ccache)
mark_as_advanced(EXECUTORCH_GGML_CCACHE)
if(EXECUTORCH_GGML_CCACHE)
  foreach(_lang IN ITEMS C CXX CUDA)
    if(NOT DEFINED CMAKE_${_lang}_COMPILER_LAUNCHER)
      set(CMAKE_${_lang}_COMPILER_LAUNCHER "${EXECUTORCH_GGML_CCACHE}")
    endif()
  endforeach()
  unset(_lang)
endif()
