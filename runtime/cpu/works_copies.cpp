// Rows that are moved: read from and written to tables, copied, turned, repeated.
#include <algorithm>
#include <cstring>

#include "ggml-cpu.h"
#include "runtime/cpu/row_works.h"

namespace executorch_ggml {
namespace {

int64_t id_at(const ggml_tensor& ids, const RowAt& at) {
  const char* const place = static_cast<const char*>(ids.data) +
                            static_cast<size_t>(at.i1) * ids.nb[0] +
                            static_cast<size_t>(at.i2 % ids.ne[1]) * ids.nb[1] +
                            static_cast<size_t>(at.i3 % ids.ne[2]) * ids.nb[2];
  return ids.type == GGML_TYPE_I64 ? *reinterpret_cast<const int64_t*>(place)
                                   : *reinterpret_cast<const int32_t*>(place);
}

bool is_id_type(ggml_type type) { return type == GGML_TYPE_I32 || type == GGML_TYPE_I64; }

int make_set_rows(WorkList& list, int i) {
  const ggml_tensor& node = list.nodes().at(i);
  const ggml_tensor& values = *node.src[0];
  const ggml_tensor& ids = *node.src[1];
  const ggml_from_float_t from_float =
      node.type == GGML_TYPE_F32 ? nullptr : ggml_get_type_traits_cpu(node.type)->from_float;
  if (!has_f32_rows(values) || !is_id_type(ids.type) || node.nb[0] != ggml_type_size(node.type) ||
      (node.type != GGML_TYPE_F32 && from_float == nullptr)) {
    return -1;
  }
  const RowKernels& kernels = *list.kernels().rows;
  const int64_t n = values.ne[0];
  add_rows(list, i, values, {&values, &ids},
           [&kernels, &node, &values, &ids, from_float, n](const RowAt& at, const WorkMemory&) {
             const float* const source = f32_row(values, at);
             char* const target = row_data(node, {id_at(ids, at), at.i2, at.i3});
             if (node.type == GGML_TYPE_F32) {
               std::memcpy(target, source, static_cast<size_t>(n) * sizeof(float));
             } else if (node.type == GGML_TYPE_F16) {
               kernels.to_f16(source, n, reinterpret_cast<ggml_fp16_t*>(target));
             } else {
               from_float(source, target, n);
             }
           });
  return i;
}

int make_get_rows(WorkList& list, int i) {
  const ggml_tensor& node = list.nodes().at(i);
  const ggml_tensor& table = *node.src[0];
  const ggml_tensor& ids = *node.src[1];
  const ggml_to_float_t to_float = ggml_get_type_traits(table.type)->to_float;
  if (!has_f32_rows(node) || !is_id_type(ids.type) || table.nb[0] != ggml_type_size(table.type) ||
      (table.type != GGML_TYPE_F32 && to_float == nullptr) || table.type == GGML_TYPE_I32 ||
      (table.buffer != nullptr && !ggml_backend_buffer_is_host(table.buffer))) {
    return -1;
  }
  const int64_t n = node.ne[0];
  add_rows(list, i, node, {&table, &ids},
           [&node, &table, &ids, to_float, n](const RowAt& at, const WorkMemory&) {
             const char* const source = row_data(table, {id_at(ids, at), at.i2, at.i3});
             if (table.type == GGML_TYPE_F32) {
               std::memcpy(f32_row(node, at), source, static_cast<size_t>(n) * sizeof(float));
             } else {
               to_float(source, f32_row(node, at), n);
             }
           });
  return i;
}

int make_repeat(WorkList& list, int i) {
  const ggml_tensor& node = list.nodes().at(i);
  const ggml_tensor& x = *node.src[0];
  const size_t size = ggml_type_size(x.type);
  if (node.type != x.type || ggml_blck_size(x.type) != 1 || x.nb[0] != size || node.nb[0] != size) {
    return -1;
  }
  const size_t x_bytes = static_cast<size_t>(x.ne[0]) * size;
  const size_t row_bytes = static_cast<size_t>(node.ne[0]) * size;
  add_rows(list, i, node, {&x},
           [&node, &x, x_bytes, row_bytes](const RowAt& at, const WorkMemory&) {
             char* const target = row_data(node, at);
             std::memcpy(target, row_data(x, at), x_bytes);
             // What is there is repeated: a row of one element takes few copies, too.
             for (size_t done = x_bytes; done < row_bytes;) {
               const size_t more = std::min(done, row_bytes - done);
               std::memcpy(target + done, target, more);
               done += more;
             }
           });
  return i;
}

}  // namespace

int make_rows(WorkList& list, int i) {
  switch (list.nodes().at(i).op) {
    case GGML_OP_SET_ROWS:
      return make_set_rows(list, i);
    case GGML_OP_GET_ROWS:
      return make_get_rows(list, i);
    default:
      return -1;
  }
}

int make_copy(WorkList& list, int i) {
  const ggml_tensor& node = list.nodes().at(i);
  if (node.op == GGML_OP_REPEAT) {
    return make_repeat(list, i);
  }
  if (node.op != GGML_OP_CONT && node.op != GGML_OP_CPY && node.op != GGML_OP_DUP) {
    return -1;
  }
  const ggml_tensor& x = *node.src[0];
  const bool to_f16 = node.type == GGML_TYPE_F16 && has_f32_rows(x);
  const bool same =
      node.type == x.type && ggml_type_size(x.type) == sizeof(float) && ggml_blck_size(x.type) == 1;
  if ((!same && !to_f16) || !ggml_are_same_shape(&x, &node) ||
      node.nb[0] != ggml_type_size(node.type)) {
    return -1;
  }
  const RowKernels& kernels = *list.kernels().rows;
  const int64_t n = node.ne[0];
  const auto copy_row = [&kernels, &x, to_f16, n](const char* source, char* target) {
    if (to_f16) {
      kernels.to_f16(reinterpret_cast<const float*>(source), n,
                     reinterpret_cast<ggml_fp16_t*>(target));
    } else if (x.nb[0] == sizeof(float)) {
      std::memcpy(target, source, static_cast<size_t>(n) * sizeof(float));
    } else {
      auto* const out = reinterpret_cast<int32_t*>(target);
      for (int64_t k = 0; k < n; ++k) {
        out[k] = *reinterpret_cast<const int32_t*>(source + static_cast<size_t>(k) * x.nb[0]);
      }
    }
  };
  // An image's few planes become its pixels.
  const bool from_planes = same && n >= 2 && n <= 4 && x.nb[0] % sizeof(float) == 0 &&
                           x.nb[1] == sizeof(float) &&
                           node.nb[1] == static_cast<size_t>(n) * sizeof(float);
  const auto copy_rows = [&kernels, &node, &x, from_planes, n, copy_row](int64_t first, int64_t end,
                                                                         const WorkMemory&) {
    // Rows may be as short as a pixel: where they are is found once for all along axis 1.
    for (int64_t row = first; row < end;) {
      const RowAt at = row_at(node, row);
      const char* source = row_data(x, at);
      char* target = row_data(node, at);
      const int64_t run_end = std::min(end, row + node.ne[1] - at.i1);
      if (from_planes) {
        kernels.interleave(reinterpret_cast<const float*>(source),
                           static_cast<int64_t>(x.nb[0] / sizeof(float)), n, run_end - row,
                           reinterpret_cast<float*>(target));
        row = run_end;
        continue;
      }
      for (; row < run_end; ++row, source += x.nb[1], target += node.nb[1]) {
        copy_row(source, target);
      }
    }
  };
  list.add(make_range_work(list, row_count(node), n, copy_rows), i, {&x});
  return i;
}

}  // namespace executorch_ggml
