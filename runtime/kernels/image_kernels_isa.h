// The kernels of image_kernels.h for one instruction set (see vector_isa.h). Sums of EG_ROWS rows
// times EG_PANELS panels, at most kPanelGroup, fit its registers. Rows often lie a multiple of 4 KB
// apart: more of them than a set of the first cache has lines (8) would drive each other out.
#pragma once

#include "runtime/kernels/image_kernels.h"
#include "runtime/kernels/image_kernels_conv_isa.h"
#include "runtime/kernels/image_kernels_depthwise_isa.h"
#include "runtime/kernels/image_kernels_pool_isa.h"
#include "runtime/kernels/image_kernels_winograd_isa.h"

namespace executorch_ggml {
namespace EG_ISA {

extern const ImageKernels kImageKernels;
const ImageKernels kImageKernels = {EG_TEXT(EG_ISA), EG_ROWS,         conv,
                                    winograd_input,  winograd_kernel, winograd_output,
                                    conv_dw,         max_pool,        avg_pool};

}  // namespace EG_ISA
}  // namespace executorch_ggml
