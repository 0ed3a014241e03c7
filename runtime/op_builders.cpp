#include "runtime/op_builders.h"

namespace executorch_ggml {

ggml_tensor* build_op(OpContext& op) {
  switch (op.call().op) {
    case Op::Reshape:
      return build_reshape(op);
    case Op::Permute:
      return build_permute(op);
    case Op::View:
      return build_view(op);
    case Op::Cont:
      return build_cont(op);
    case Op::Cast:
      return build_cast(op);
    case Op::Repeat:
      return build_repeat(op);
    case Op::Concat:
      return build_concat(op);
    case Op::Pad:
      return build_pad(op);
    case Op::GetRows:
      return build_get_rows(op);
    case Op::SetRows:
      return build_set_rows(op);
    case Op::Assign:
      return build_assign(op);
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::Div:
      return build_binary(op);
    case Op::Scale:
      return build_scale(op);
    case Op::Clamp:
      return build_clamp(op);
    case Op::Sqr:
    case Op::Sqrt:
    case Op::Log:
    case Op::Sin:
    case Op::Cos:
      return build_math(op);
    case Op::Unary:
      return build_unary(op);
    case Op::LeakyRelu:
      return build_leaky_relu(op);
    case Op::Glu:
      return build_glu(op);
    case Op::SumRows:
    case Op::MeanRows:
      return build_reduce_rows(op);
    case Op::Sum:
      return build_sum(op);
    case Op::Argmax:
      return build_argmax(op);
    case Op::Cumsum:
      return build_cumsum(op);
    case Op::Norm:
    case Op::RmsNorm:
    case Op::L2Norm:
      return build_norm(op);
    case Op::GroupNorm:
      return build_group_norm(op);
    case Op::SoftMax:
      return build_soft_max(op);
    case Op::MulMat:
      return build_mul_mat(op);
    case Op::Rope:
      return build_rope(op);
    case Op::Attention:
      return build_attention(op);
    case Op::UpdateAndAttend:
      return build_update_and_attend(op);
    case Op::Conv2d:
      return build_conv_2d(op);
    case Op::Conv2dDw:
      return build_conv_2d_dw(op);
    case Op::Pool2d:
      return build_pool_2d(op);
    case Op::Im2col:
      return build_im2col(op);
    case Op::Im2col3d:
      return build_im2col_3d(op);
    case Op::Col2im:
      return build_col2im(op);
    case Op::Upscale:
      return build_upscale(op);
    case Op::Conv2dNhwc:
      return build_conv_2d_nhwc(op);
    case Op::Conv2dDwNhwc:
      return build_conv_2d_dw_nhwc(op);
    case Op::Pool2dNhwc:
      return build_pool_2d_nhwc(op);
    case Op::HostUnary:
      return build_host_unary(op);
    case Op::HostBinary:
      return build_host_binary(op);
    case Op::HostWhere:
      return build_host_where(op);
    case Op::HostConvert:
      return build_host_convert(op);
    case Op::HostRound:
      return build_host_round(op);
    case Op::HostReduce:
      return build_host_reduce(op);
    case Op::HostScan:
      return build_host_scan(op);
    case Op::HostArgsort:
      return build_host_argsort(op);
    case Op::HostGather:
      return build_host_gather(op);
    case Op::HostScatter:
      return build_host_scatter(op);
    case Op::HostWrapIds:
      return build_host_wrap_ids(op);
    case Op::HostIota:
      return build_host_iota(op);
    case Op::HostPool:
      return build_host_pool(op);
    case Op::HostResize:
      return build_host_resize(op);
    case Op::HostGridSample:
      return build_host_grid_sample(op);
    case Op::HostRecurrent:
      return build_host_recurrent(op);
  }
  return nullptr;  // not reached: parse_program refuses unknown ops
}

size_t tensors_per_call(Op op) {
  if (op == Op::Attention || op == Op::UpdateAndAttend) {
    return 48;
  }
  return op == Op::Conv2d ? 10 : 4;
}

}  // namespace executorch_ggml
