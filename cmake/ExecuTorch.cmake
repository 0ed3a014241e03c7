# ExecuTorch's C++ SDK, from the `executorch` wheel.
#
# Defines eg_executorch: headers, libexecutorch.so and, where there is one, the
# thread pool, linked by path so that our library's run path is ours to choose
# (the imported target's link options would write this machine's folder into it).

set(EG_EXECUTORCH_VERSION 1.5.1)

# eg_fetch_executorch(<out>): the pinned wheel, unpacked in the build tree.
function(eg_fetch_executorch out)
  set(_target "${CMAKE_BINARY_DIR}/executorch-wheel")
  if(NOT IS_DIRECTORY "${_target}/executorch/share/cmake")
    message(STATUS "Fetching the executorch ${EG_EXECUTORCH_VERSION} wheel with pip ...")
    file(REMOVE_RECURSE "${_target}" "${_target}.tmp")
    execute_process(
      COMMAND
        "${Python3_EXECUTABLE}" -m pip install --quiet --disable-pip-version-check --no-deps
        --only-binary executorch --target "${_target}.tmp" "executorch==${EG_EXECUTORCH_VERSION}"
      RESULT_VARIABLE _result
    )
    if(NOT _result EQUAL 0)
      message(FATAL_ERROR "pip could not fetch executorch==${EG_EXECUTORCH_VERSION}.")
    endif()
    file(RENAME "${_target}.tmp" "${_target}")
  endif()
  set(${out}
      "${_target}/executorch"
      PARENT_SCOPE
  )
endfunction()

set(_et_dir "${EXECUTORCH_DIR}")
if(NOT _et_dir)
  eg_find_python_package(_et_dir executorch)
endif()
if(NOT _et_dir AND EXECUTORCH_GGML_FETCH_EXECUTORCH)
  eg_fetch_executorch(_et_dir)
endif()
if(NOT _et_dir AND NOT executorch_DIR)
  message(
    FATAL_ERROR
      "ExecuTorch was not found by ${Python3_EXECUTABLE}.\n"
      "Install it into that environment:\n"
      "    ${Python3_EXECUTABLE} -m pip install executorch==${EG_EXECUTORCH_VERSION}\n"
      "or name it: -DEXECUTORCH_DIR=<site-packages>/executorch (or an install prefix)."
  )
endif()

# find_package searches <prefix>/share/cmake, not share/cmake itself.
find_package(
  executorch ${EG_EXECUTORCH_VERSION} QUIET
  COMPONENTS kernels_optimized etdump threadpool
  PATHS "${_et_dir}" "${_et_dir}/share/cmake" "${_et_dir}/lib/cmake"
  NO_DEFAULT_PATH
)
if(NOT executorch_FOUND)
  find_package(executorch ${EG_EXECUTORCH_VERSION} QUIET COMPONENTS kernels_optimized)
endif()
if(NOT executorch_FOUND OR NOT TARGET executorch::runtime)
  message(
    FATAL_ERROR
      "No usable ExecuTorch >= ${EG_EXECUTORCH_VERSION} under '${_et_dir}'"
      " (${executorch_NOT_FOUND_MESSAGE}).\n"
      "Install the wheel, which holds the C++ SDK:\n"
      "    ${Python3_EXECUTABLE} -m pip install executorch==${EG_EXECUTORCH_VERSION}\n"
      "or name another place: -DEXECUTORCH_DIR=<site-packages>/executorch."
  )
endif()
get_target_property(_et_library executorch::runtime IMPORTED_LOCATION)
file(REAL_PATH "${_et_library}" _et_library)
cmake_path(GET _et_library PARENT_PATH EG_EXECUTORCH_LIBRARY_DIR)
message(STATUS "ExecuTorch ${EXECUTORCH_BUILD_VERSION} in ${EG_EXECUTORCH_LIBRARY_DIR}")

add_library(eg_executorch INTERFACE)
target_include_directories(
  eg_executorch SYSTEM
  INTERFACE "$<TARGET_PROPERTY:executorch::runtime,INTERFACE_INCLUDE_DIRECTORIES>"
)
target_compile_definitions(
  eg_executorch
  INTERFACE "$<TARGET_PROPERTY:executorch::runtime,INTERFACE_COMPILE_DEFINITIONS>"
)
target_link_libraries(eg_executorch INTERFACE "${_et_library}")
# Its headers say with ET_USE_THREADPOOL, defined above, that it is there.
if(TARGET executorch::threadpool)
  get_target_property(_et_threads executorch::threadpool IMPORTED_LOCATION)
  target_link_libraries(eg_executorch INTERFACE "${_et_threads}")
  unset(_et_threads)
endif()
unset(_et_library)
unset(_et_dir)
