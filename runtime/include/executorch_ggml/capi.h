/* C API: load a .pte with its weights and run its methods.
 *
 *   const char* weights[] = {"qwen3-q8_0.gguf"};
 *   const eg_option options[] = {{"context", "4096"}};
 *   eg_program* program = NULL;
 *   if (eg_load("qwen3.pte", weights, 1, options, 1, &program) != 0) {
 *     fprintf(stderr, "%s\n", eg_last_error());
 *   }
 *   const eg_tensor* outputs = NULL;
 *   size_t n_outputs = 0;
 *   eg_run(program, "forward", inputs, 2, &outputs, &n_outputs);
 *   eg_close(program);
 *
 * Functions that can fail return 0 or an ExecuTorch error code; eg_last_error() is
 * then a sentence that says what, where and what to do. No exception leaves them.
 * Methods may run on different threads at the same time; calls of one method wait
 * for one another. Nothing may run during eg_close().
 */
#ifndef EXECUTORCH_GGML_CAPI_H_
#define EXECUTORCH_GGML_CAPI_H_

#include <stddef.h>
#include <stdint.h>

#include "executorch_ggml/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when something here changes; eg_api_version() is the library's. */
#define EG_API_VERSION 1

/* A loaded program and its session. */
typedef struct eg_program eg_program;

/* A load option: keys and values as in executorch_ggml/options.h. */
typedef struct eg_option {
  const char* key;
  const char* value;
} eg_option;

/* A contiguous tensor in host memory, sizes in torch order. dtype is ExecuTorch's
 * ScalarType: 0 uint8, 1 int8, 2 int16, 3 int32, 4 int64, 5 half, 6 float,
 * 7 double, 11 bool, 15 bfloat16. Numbers are tensors with ndim 0. */
typedef struct eg_tensor {
  const void* data;
  const int32_t* sizes;
  int32_t ndim;
  int32_t dtype;
} eg_tensor;

/* What a method takes or gives; sizes are upper bounds. */
typedef struct eg_argument {
  const int32_t* sizes;
  int32_t ndim;
  int32_t dtype;
  int32_t is_tensor; /* 0: a number */
} eg_argument;

/* Valid until eg_close(). */
typedef struct eg_method_info {
  const eg_argument* inputs;
  const eg_argument* outputs;
  const char* const* backends; /* ids of the delegates that the method uses */
  size_t n_inputs;
  size_t n_outputs;
  size_t n_backends;
  size_t planned_bytes; /* memory that ExecuTorch planned for the method */
} eg_method_info;

EXECUTORCH_GGML_API int32_t eg_api_version(void);
/* "0.1.0" */
EXECUTORCH_GGML_API const char* eg_version(void);
/* Of the last failed call on this thread; never null. */
EXECUTORCH_GGML_API const char* eg_last_error(void);

/* Opens a .pte and its .gguf or .ptd files. Methods are loaded when first used. */
EXECUTORCH_GGML_API int32_t eg_load(const char* pte_path, const char* const* data_paths,
                                    size_t n_data_paths, const eg_option* options, size_t n_options,
                                    eg_program** out);
/* Null is allowed. */
EXECUTORCH_GGML_API void eg_close(eg_program* program);

EXECUTORCH_GGML_API size_t eg_method_count(const eg_program* program);
/* Null when the index is out of range; valid until eg_close(). */
EXECUTORCH_GGML_API const char* eg_method_name(const eg_program* program, size_t index);
/* Reads the file; does not load the method. */
EXECUTORCH_GGML_API int32_t eg_method_describe(eg_program* program, const char* method,
                                               eg_method_info* out);
EXECUTORCH_GGML_API int32_t eg_load_method(eg_program* program, const char* method);

/* Inputs are read during the call only. Outputs are views that hold until the same
 * method runs again, or eg_close(). After an error in the arguments the session is
 * as it was. */
EXECUTORCH_GGML_API int32_t eg_run(eg_program* program, const char* method, const eg_tensor* inputs,
                                   size_t n_inputs, const eg_tensor** outputs, size_t* n_outputs);

/* The session: what the program's caches and mutable buffers hold. */
EXECUTORCH_GGML_API const char* eg_session_name(const eg_program* program);
EXECUTORCH_GGML_API int32_t eg_reset(eg_program* program);
/* Keeps positions 0 .. position-1. */
EXECUTORCH_GGML_API int32_t eg_rewind(eg_program* program, int64_t position);
EXECUTORCH_GGML_API int32_t eg_save_session(eg_program* program, const char* path);
EXECUTORCH_GGML_API int32_t eg_restore_session(eg_program* program, const char* path);
/* Copies the state of `from` over that of `to`; the same methods must be loaded. */
EXECUTORCH_GGML_API int32_t eg_fork(eg_program* from, eg_program* to);
EXECUTORCH_GGML_API int64_t eg_used_positions(const eg_program* program);
EXECUTORCH_GGML_API int64_t eg_position_capacity(const eg_program* program);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* EXECUTORCH_GGML_CAPI_H_ */
