// One builder per IR op, grouped in families: op_builders_<family>.cpp.
//
// A builder checks what its ggml call asserts and makes the call; it returns
// null after a failed expectation. To add an op: a row in ir/opset.py, a
// declaration here, a body in its family's file and a line in build_op()'s
// switch, which has no default so that the compiler asks for it.
#pragma once

#include "runtime/graph_builder.h"

namespace executorch_ggml {

// Dispatches on the call's op.
ggml_tensor* build_op(OpContext& op);

// Upper bound on the ggml tensors that one call of `op` makes.
size_t tensors_per_call(Op op);

// views
ggml_tensor* build_reshape(OpContext& op);
ggml_tensor* build_permute(OpContext& op);
ggml_tensor* build_view(OpContext& op);
// copies
ggml_tensor* build_cont(OpContext& op);
ggml_tensor* build_cast(OpContext& op);
ggml_tensor* build_repeat(OpContext& op);
ggml_tensor* build_concat(OpContext& op);
ggml_tensor* build_pad(OpContext& op);
// rows and state
ggml_tensor* build_get_rows(OpContext& op);
ggml_tensor* build_set_rows(OpContext& op);
ggml_tensor* build_assign(OpContext& op);
// element-wise
ggml_tensor* build_binary(OpContext& op);  // add, sub, mul, div
ggml_tensor* build_scale(OpContext& op);
ggml_tensor* build_clamp(OpContext& op);
ggml_tensor* build_math(OpContext& op);  // sqr, sqrt, log, sin, cos
ggml_tensor* build_unary(OpContext& op);
ggml_tensor* build_leaky_relu(OpContext& op);
ggml_tensor* build_glu(OpContext& op);
// reductions and norms
ggml_tensor* build_reduce_rows(OpContext& op);  // sum_rows, mean_rows
ggml_tensor* build_sum(OpContext& op);
ggml_tensor* build_argmax(OpContext& op);
ggml_tensor* build_cumsum(OpContext& op);
ggml_tensor* build_norm(OpContext& op);  // norm, rms_norm, l2_norm
ggml_tensor* build_group_norm(OpContext& op);
ggml_tensor* build_soft_max(OpContext& op);
// products and rotation
ggml_tensor* build_mul_mat(OpContext& op);
ggml_tensor* build_rope(OpContext& op);
// stateful_ops.cpp: the coarse ops whose best graph only the runtime can choose
ggml_tensor* build_attention(OpContext& op);
ggml_tensor* build_update_and_attend(OpContext& op);
// convolution
ggml_tensor* build_conv_2d(OpContext& op);
ggml_tensor* build_conv_2d_dw(OpContext& op);
ggml_tensor* build_pool_2d(OpContext& op);
ggml_tensor* build_im2col(OpContext& op);
ggml_tensor* build_im2col_3d(OpContext& op);
ggml_tensor* build_col2im(OpContext& op);
ggml_tensor* build_upscale(OpContext& op);
// channels-last images
ggml_tensor* build_conv_2d_nhwc(OpContext& op);
ggml_tensor* build_conv_2d_dw_nhwc(OpContext& op);
// Whether this call is computed together with the convolution that it reads.
bool takes_in_convolution(const OpContext& depthwise, const ggml_tensor& conv);
ggml_tensor* build_pool_2d_nhwc(OpContext& op);
// host-side ops
ggml_tensor* build_host_unary(OpContext& op);
ggml_tensor* build_host_binary(OpContext& op);
ggml_tensor* build_host_where(OpContext& op);
ggml_tensor* build_host_convert(OpContext& op);
ggml_tensor* build_host_round(OpContext& op);
ggml_tensor* build_host_reduce(OpContext& op);
ggml_tensor* build_host_scan(OpContext& op);
ggml_tensor* build_host_argsort(OpContext& op);
ggml_tensor* build_host_gather(OpContext& op);
ggml_tensor* build_host_scatter(OpContext& op);
ggml_tensor* build_host_wrap_ids(OpContext& op);
ggml_tensor* build_host_iota(OpContext& op);
ggml_tensor* build_host_pool(OpContext& op);
ggml_tensor* build_host_resize(OpContext& op);
ggml_tensor* build_host_grid_sample(OpContext& op);
ggml_tensor* build_host_recurrent(OpContext& op);

}  // namespace executorch_ggml
