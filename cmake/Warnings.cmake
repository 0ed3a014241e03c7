# eg_strict(target): the compile options of our own code, and only ours.
function(eg_strict target)
  if(MSVC)
    target_compile_options(${target} PRIVATE /W4 /WX)
  else()
    target_compile_options(
      ${target} PRIVATE -Wall -Wextra -Wconversion -Wsign-conversion -Wshadow -Werror
    )
    if(EG_UBSAN)
      # vptr needs type information of classes that libexecutorch.so keeps to itself.
      target_compile_options(
        ${target} PRIVATE -fsanitize=undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined
      )
    endif()
  endif()
  set_target_properties(
    ${target} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
  )
endfunction()
