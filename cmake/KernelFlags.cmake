# eg_kernel_flags(<folder>): for the targets of the calling folder, the compile flags of the
# kernels in <folder>, each file for one instruction set, chosen at run time.
#
# Vectors never cross a call, so their calling convention does not matter; sums are fused
# multiply-adds where the machine has them.
function(eg_kernel_flags folder)
  set(_common -O3 -ffp-contract=fast -Wno-psabi)
  set(_isas baseline)
  set(_baseline)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND _isas avx2 avx512 amx)
    set(_avx2 -mavx2 -mfma -mf16c)
    set(_avx512 ${_avx2} -mavx512f -mprefer-vector-width=512)
    set(_matmul_avx512 -mavx512bw -mavx512dq -mavx512vl -mavx512vnni)
    set(_matmul_amx ${_avx512} ${_matmul_avx512} -mamx-tile -mamx-bf16)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    list(APPEND _isas neon)
    set(_neon -march=armv8.2-a+dotprod)
  endif()
  foreach(_family IN ITEMS attention image matmul row)
    foreach(_isa IN LISTS _isas)
      set_source_files_properties(
        "${folder}/${_family}_kernels_${_isa}.cpp"
        PROPERTIES COMPILE_OPTIONS "${_common};${_${_isa}};${_${_family}_${_isa}}"
      )
    endforeach()
  endforeach()
endfunction()
