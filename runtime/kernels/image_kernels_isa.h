// The kernels of image_kernels.h for one instruction set (see vector_isa.h). EG_ROWS: the rows
// that times kPanelGroup panels, or times one where EG_PANELS is 1, fit its registers.
#pragma once

#include "runtime/kernels/image_kernels.h"
#include "runtime/kernels/image_kernels_conv_isa.h"
#include "runtime/kernels/image_kernels_depthwise_isa.h"
#include "runtime/kernels/image_kernels_pool_isa.h"

namespace executorch_ggml {
namespace EG_ISA {

extern const ImageKernels kImageKernels;
const ImageKernels kImageKernels = {EG_TEXT(EG_ISA), EG_ROWS, conv, conv_dw, max_pool, avg_pool};

}  // namespace EG_ISA
}  // namespace executorch_ggml
