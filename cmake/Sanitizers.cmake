# EXECUTORCH_GGML_SANITIZE=address,undefined | thread | ...
#
# AddressSanitizer and ThreadSanitizer cover ggml too, because a bad graph of
# ours shows as a bad access of its. UndefinedBehaviorSanitizer covers our own
# code only (see eg_strict): ggml's packed blocks are read unaligned by design.

set(EG_UBSAN OFF)
if(EXECUTORCH_GGML_SANITIZE)
  string(REPLACE "," ";" _sanitizers "${EXECUTORCH_GGML_SANITIZE}")
  foreach(_sanitizer IN LISTS _sanitizers)
    if(_sanitizer STREQUAL "undefined")
      set(EG_UBSAN ON)
      add_link_options(-fsanitize=undefined)
    elseif(_sanitizer MATCHES "^(address|thread|leak)$")
      add_compile_options(-fsanitize=${_sanitizer} -fno-omit-frame-pointer -g1)
      add_link_options(-fsanitize=${_sanitizer})
    else()
      message(
        FATAL_ERROR
          "EXECUTORCH_GGML_SANITIZE: unknown sanitizer '${_sanitizer}'. Use a comma-separated "
          "list of address, undefined, thread, leak."
      )
    endif()
  endforeach()
  unset(_sanitizer)
  unset(_sanitizers)
endif()
