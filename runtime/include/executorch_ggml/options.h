// The load options of the ggml backend, by name.
//
// An option can be given in four places; the first that sets it counts:
//   1. a runtime spec: executorch::runtime::BackendOption at load_method()
//      (LoadBackendOptionsMap, backend id "GgmlBackend"), or a key and a text
//      value through ProgramRunner and the C API;
//   2. an environment variable;
//   3. a compile spec written by the exporter (value: UTF-8 text);
//   4. the default.
//
// Numbers and booleans may be given as text ("4", "1", "true", "on"). An unknown
// key in a runtime spec, or a value that is not accepted, is an error that lists
// what is. Unknown compile specs belong to the exporter and are ignored.
#pragma once

namespace executorch_ggml {

// The name under which the backend registers, for LoadBackendOptionsMap,
// set_option() and get_option().
inline constexpr char kBackendName[] = "GgmlBackend";

namespace option {

// Threads of the CPU backend. int >= 1; 0, the default: the physical cores that
// this process may use. Variable: GGML_N_THREADS.
inline constexpr char kNumThreads[] = "n_threads";

// The CPUs on which the threads of our kernels run: a list such as "0-3,8", which one thread each
// takes, in order, if it is long enough, and which all share if not; "none": where the system
// puts them; "auto" (default): one each while they decode, if they are as many as the CPUs that the
// process may use, else none. The caller's thread is given back as it was. Linux only.
// Variable: GGML_AFFINITY.
inline constexpr char kAffinity[] = "affinity";

// Whose threads our kernels compute on: "own" (default), or "executorch": those of
// executorch::extension::threadpool, which ExecuTorch's kernels and XNNPACK use as
// well, at most n_threads of them, for programs of which only a part is delegated to
// this backend. These stay where they are (no CPUs in `affinity`).
// Variable: GGML_THREAD_POOL.
inline constexpr char kThreadPool[] = "thread_pool";

// Name of a ggml device. string; default "cpu". Variable: GGML_BACKEND_DEVICE.
inline constexpr char kDevice[] = "device";

// Use the flash form of attention. bool; default on the CPU: on, except for a mask
// that is given without a cache, which that form would round to F16; with ggml's
// kernels alone (kernels=ggml) also off, for exact F32, over an F32 cache and without
// one. On other devices: on. It also fixes how a cache stores its values, so all
// methods of a session must agree. Variable: GGML_FLASH_ATTENTION.
inline constexpr char kFlashAttention[] = "flash_attention";

// Type of cached keys and values. "f32", "f16" (default) or "q8_0"; q8_0 needs
// flash attention. Variable: GGML_CACHE_TYPE.
inline constexpr char kCacheType[] = "cache_type";

// Positions that a cache holds. int >= 1, at most the model's context; 0, the
// default: the exported sequence length rounded up to 256. Variable: GGML_CONTEXT.
inline constexpr char kContext[] = "context";

// Name of the session whose state (caches, mutable buffers) this load uses.
// string; default: methods of one program share a session of their own.
inline constexpr char kSession[] = "session";

// Keep built graphs for reuse. bool; default true. The variable
// GGML_NO_GRAPH_CACHE=1 turns it off.
inline constexpr char kGraphCache[] = "graph_cache";

// Keep a copy of quantized weights that only ggml's kernels multiply in the layout
// that is fastest for them (as llama.cpp does), where there is one. bool; default
// true. Our own kernels read weights as the file has them. Variable: GGML_PACK_WEIGHTS.
inline constexpr char kPackWeights[] = "pack_weights";

// Use weights where they lie, in the mapped file, if they can be. bool; default true. Without,
// those that a call reads whole are copied at load into memory of their own, in large pages where
// the system gives them: a decoder is faster then, its load takes longer, and processes that use
// the same file no longer share its memory. The variable GGML_NO_MMAP=1 turns it off.
inline constexpr char kMmap[] = "mmap";

// Whose kernels compute on the CPU: "own" (default; ggml's where we have none) or
// "ggml" (its own alone, to compare). Variable: GGML_KERNELS.
inline constexpr char kKernels[] = "kernels";

// Time each op (adds overhead). bool; default false. Variable: GGML_PROFILE.
inline constexpr char kProfile[] = "profile";

// Log a breakdown of the time of each call. bool; default false. Variable:
// GGML_PERF_LOG.
inline constexpr char kPerfLog[] = "perf_log";

// File to which statistics of every node's result are appended. string; default:
// none. Variable: GGML_DEBUG_DUMP.
inline constexpr char kDebugDump[] = "debug_dump";

// Largest number of positions in one call, at most the exported bound; memory is
// reserved for it. int >= 1; 0, the default: the exported bound. Variable:
// GGML_MAX_TOKENS_PER_CALL.
inline constexpr char kMaxTokensPerCall[] = "max_tokens_per_call";

}  // namespace option

// Commands for a session's state, given to executorch::runtime::set_option().
// They act on the whole session and wait for a call that is running on it.
namespace command {

// "SESSION": every cache is emptied, every buffer gets its first content.
inline constexpr char kReset[] = "reset";
// "SESSION:POSITION": keeps positions 0 .. POSITION-1 of every cache.
inline constexpr char kRewind[] = "rewind";
// "FROM:TO": copies the state of session FROM over that of session TO, which
// must have the same states.
inline constexpr char kFork[] = "fork";
// "SESSION:PATH": writes the state to a file.
inline constexpr char kSave[] = "save";
// "SESSION:PATH": reads the state from a file that kSave wrote.
inline constexpr char kRestore[] = "restore";

}  // namespace command

// Queries for executorch::runtime::get_option(). The option's value is the
// session's name (text) and is replaced by the answer.
namespace query {

// int: positions held by the session's caches.
inline constexpr char kUsed[] = "used";
// int: positions that the session's caches can hold.
inline constexpr char kCapacity[] = "capacity";

}  // namespace query

}  // namespace executorch_ggml
