// ExecuTorch's option types, read into ours: load options, and the commands and
// queries that set_option() and get_option() bring.
#pragma once

#include <executorch/runtime/backend/backend_init_context.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>

#include "runtime/options.h"
#include "runtime/session.h"
#include "runtime/status.h"

namespace executorch_ggml {

// Resolves the options of one load from its runtime specs, the environment and
// the compile specs; precedence as in executorch_ggml/options.h.
Status options_of_load(const executorch::runtime::BackendInitContext& context,
                       executorch::runtime::ArrayRef<executorch::runtime::CompileSpec> specs,
                       RuntimeOptions& out);

// The session a load uses: the named one, else that of its program and data map,
// else one of its own.
std::shared_ptr<Session> session_of_load(const RuntimeOptions& options,
                                         const std::string& program_id, const void* data_map);

// One command for a session's state (namespace command in the public header), as
// key and value: "reset", "conversation-1".
Status run_command(std::string_view key, const std::string& value);

// set_option(): commands, in order; stops at the first error.
Status set_options(executorch::runtime::Span<executorch::runtime::BackendOption> options);

// get_option(): queries; each value (a session's name) becomes its answer.
Status get_options(executorch::runtime::Span<executorch::runtime::BackendOption> options);

}  // namespace executorch_ggml
