#include "executorch_ggml/program_runner.h"

#include <executorch/extension/data_loader/mmap_data_loader.h>
#include <executorch/extension/flat_tensor/flat_tensor_data_map.h>
#include <executorch/extension/named_data_map/merged_data_map.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/executor/program.h>
#include <executorch/runtime/platform/runtime.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "executorch_ggml/gguf_data_map.h"
#include "runtime/loaded_method.h"
#include "runtime/runner_status.h"
#include "runtime/session.h"
#include "runtime/status.h"

namespace executorch_ggml {
namespace {

namespace et = executorch::runtime;
using executorch::aten::ScalarType;
using executorch::extension::FlatTensorDataMap;
using executorch::extension::MmapDataLoader;

const char* dtype_text(ScalarType type) { return executorch::runtime::toString(type); }

}  // namespace

size_t TensorView::nbytes() const {
  size_t count = executorch::runtime::elementSize(dtype);
  for (const int32_t size : sizes) {
    count *= static_cast<size_t>(size);
  }
  return count;
}

struct ProgramRunner::Impl {
  std::string path;
  std::string session;
  std::unique_ptr<MmapDataLoader> loader;
  std::unique_ptr<et::Program> program;
  std::vector<std::unique_ptr<MmapDataLoader>> data_loaders;
  std::vector<std::unique_ptr<et::NamedDataMap>> data_maps;
  std::unique_ptr<et::NamedDataMap> merged;
  const et::NamedDataMap* data_map = nullptr;
  std::vector<et::BackendOption> options;
  et::LoadBackendOptionsMap options_map;
  et::EventTracer* event_tracer = nullptr;
  std::vector<std::string> method_names;
  std::mutex methods_mutex;
  // Last, so that methods end before what they use.
  std::map<std::string, std::unique_ptr<LoadedMethod>> methods;

  RunnerStatus open_program();
  RunnerStatus open_data(const std::vector<std::string>& files);
  RunnerStatus set_options(const std::vector<std::pair<std::string, std::string>>& given);
  RunnerStatus info_of(const std::string& name, MethodInfo& out) const;
  RunnerStatus find_method(const std::string& name, LoadedMethod*& out);
  std::shared_ptr<Session> live_session() const { return Session::find(session); }
  RunnerStatus with_session(const std::function<Status(Session&)>& action) const;
};

RunnerStatus ProgramRunner::Impl::open_program() {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return runner_error(et::Error::AccessFailed, "cannot open program '%s': %s", path.c_str(),
                        error ? error.message().c_str() : "it is no file");
  }
  auto opened = MmapDataLoader::from(path.c_str(), MmapDataLoader::MlockConfig::NoMlock);
  if (!opened.ok()) {
    return runner_error(opened.error(), "cannot map program '%s'", path.c_str());
  }
  loader = std::make_unique<MmapDataLoader>(std::move(opened.get()));
  auto loaded = et::Program::load(loader.get(), et::Program::Verification::InternalConsistency);
  if (!loaded.ok()) {
    return runner_error(loaded.error(),
                        "'%s' is no ExecuTorch program that this runtime reads (%s); its log says "
                        "more",
                        path.c_str(), et::to_string(loaded.error()));
  }
  program = std::make_unique<et::Program>(std::move(loaded.get()));
  for (size_t i = 0; i < program->num_methods(); ++i) {
    const auto name = program->get_method_name(i);
    if (!name.ok()) {
      return runner_error(name.error(), "'%s': method %zu has no name", path.c_str(), i);
    }
    method_names.emplace_back(name.get());
  }
  return {};
}

RunnerStatus ProgramRunner::Impl::open_data(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    const std::string extension = std::filesystem::path(file).extension().string();
    if (extension == ".gguf") {
      std::string message;
      auto loaded = GgufDataMap::load(file, message);
      if (!loaded.ok()) {
        return RunnerStatus(loaded.error(), message);
      }
      data_maps.push_back(std::move(loaded.get()));
      continue;
    }
    if (extension != ".ptd") {
      return runner_error(et::Error::InvalidArgument,
                          "data file '%s' is neither a .gguf nor a .ptd file", file.c_str());
    }
    std::error_code error;
    if (!std::filesystem::is_regular_file(file, error)) {
      return runner_error(et::Error::AccessFailed, "cannot open data file '%s': %s", file.c_str(),
                          error ? error.message().c_str() : "it is no file");
    }
    auto opened = MmapDataLoader::from(file.c_str(), MmapDataLoader::MlockConfig::NoMlock);
    if (!opened.ok()) {
      return runner_error(opened.error(), "cannot map data file '%s'", file.c_str());
    }
    data_loaders.push_back(std::make_unique<MmapDataLoader>(std::move(opened.get())));
    auto loaded = FlatTensorDataMap::load(data_loaders.back().get());
    if (!loaded.ok()) {
      return runner_error(loaded.error(), "'%s' is no .ptd file that this runtime reads",
                          file.c_str());
    }
    data_maps.push_back(std::make_unique<FlatTensorDataMap>(std::move(loaded.get())));
  }
  if (data_maps.size() == 1) {
    data_map = data_maps.front().get();
  } else if (data_maps.size() > 1) {
    std::vector<const et::NamedDataMap*> parts;
    for (const auto& map : data_maps) {
      parts.push_back(map.get());
    }
    using executorch::extension::merged_data_map::MergedDataMap;
    auto all = MergedDataMap::load({parts.data(), parts.size()});
    if (!all.ok()) {
      return runner_error(all.error(),
                          "the data files cannot be used together: a name is in two of them");
    }
    merged = std::make_unique<MergedDataMap>(std::move(all.get()));
    data_map = merged.get();
  }
  return {};
}

RunnerStatus ProgramRunner::Impl::set_options(
    const std::vector<std::pair<std::string, std::string>>& given) {
  std::vector<std::pair<std::string, std::string>> all = given;
  const auto named = std::find_if(all.begin(), all.end(),
                                  [](const auto& o) { return o.first == option::kSession; });
  if (named == all.end()) {
    static std::atomic<uint64_t> count = 0;
    all.emplace_back(option::kSession, std::string("runner#").append(std::to_string(++count)));
    session = all.back().second;
  } else {
    session = named->second;
  }
  for (const auto& [key, value] : all) {
    if (key.size() >= et::kMaxOptionKeyLength || value.size() >= et::kMaxOptionValueLength) {
      return runner_error(et::Error::InvalidArgument,
                          "option '%s' or its value is too long; at most %zu and %zu bytes",
                          key.c_str(), et::kMaxOptionKeyLength - 1, et::kMaxOptionValueLength - 1);
    }
    et::BackendOption entry;
    std::memcpy(entry.key, key.c_str(), key.size() + 1);
    std::array<char, et::kMaxOptionValueLength> text{};
    std::memcpy(text.data(), value.data(), value.size());
    entry.value = text;
    options.push_back(entry);
  }
  const et::Error error = options_map.set_options(kBackendName, {options.data(), options.size()});
  return error == et::Error::Ok ? RunnerStatus()
                                : runner_error(error, "the load options cannot be passed on");
}

RunnerStatus ProgramRunner::Impl::info_of(const std::string& name, MethodInfo& out) const {
  if (std::find(method_names.begin(), method_names.end(), name) == method_names.end()) {
    std::string all;
    for (const std::string& other : method_names) {
      all.append(all.empty() ? "" : ", ").append(other);
    }
    return runner_error(et::Error::NotFound, "'%s' has no method '%s'; it has: %s", path.c_str(),
                        name.c_str(), all.c_str());
  }
  const auto meta = program->method_meta(name.c_str());
  if (!meta.ok()) {
    return executorch_error(meta.error(), "method '" + name + "'");
  }
  out = MethodInfo();
  out.name = name;
  const auto describe = [](const et::Result<et::Tag>& tag,
                           const et::Result<et::TensorInfo>& tensor) {
    ArgumentInfo info;
    info.is_tensor = tag.ok() && tag.get() == et::Tag::Tensor && tensor.ok();
    if (info.is_tensor) {
      info.dtype = tensor->scalar_type();
      info.sizes.assign(tensor->sizes().begin(), tensor->sizes().end());
    } else if (tag.ok()) {
      info.dtype = tag.get() == et::Tag::Int    ? ScalarType::Long
                   : tag.get() == et::Tag::Bool ? ScalarType::Bool
                                                : ScalarType::Double;
    }
    return info;
  };
  for (size_t i = 0; i < meta->num_inputs(); ++i) {
    const auto tag = meta->input_tag(i);
    const bool tensor = tag.ok() && tag.get() == et::Tag::Tensor;
    out.inputs.push_back(describe(tag, tensor
                                           ? meta->input_tensor_meta(i)
                                           : et::Result<et::TensorInfo>(et::Error::InvalidType)));
  }
  for (size_t i = 0; i < meta->num_outputs(); ++i) {
    const auto tag = meta->output_tag(i);
    const bool tensor = tag.ok() && tag.get() == et::Tag::Tensor;
    out.outputs.push_back(describe(tag, tensor
                                            ? meta->output_tensor_meta(i)
                                            : et::Result<et::TensorInfo>(et::Error::InvalidType)));
  }
  for (size_t i = 0; i < meta->num_backends(); ++i) {
    const auto backend = meta->get_backend_name(i);
    if (backend.ok()) {
      out.backends.emplace_back(backend.get());
    }
  }
  for (size_t i = 0; i < meta->num_memory_planned_buffers(); ++i) {
    const auto size = meta->memory_planned_buffer_size(i);
    out.planned_bytes += size.ok() && size.get() > 0 ? static_cast<size_t>(size.get()) : 0;
  }
  return {};
}

RunnerStatus ProgramRunner::Impl::find_method(const std::string& name, LoadedMethod*& out) {
  const std::lock_guard lock(methods_mutex);
  const auto found = methods.find(name);
  if (found != methods.end()) {
    out = found->second.get();
    return {};
  }
  MethodInfo info;
  if (RunnerStatus status = info_of(name, info); !status.ok()) {
    return status;
  }
  const MethodSource source{*program, path, data_map, options_map, event_tracer};
  std::unique_ptr<LoadedMethod> loaded;
  if (RunnerStatus status = LoadedMethod::load(source, std::move(info), loaded); !status.ok()) {
    return status;
  }
  out = loaded.get();
  methods.emplace(name, std::move(loaded));
  return {};
}

RunnerStatus ProgramRunner::Impl::with_session(
    const std::function<Status(Session&)>& action) const {
  const std::shared_ptr<Session> found = live_session();
  if (found == nullptr) {
    return runner_error(et::Error::NotFound,
                        "session '%s' has no state: no method that uses state is loaded",
                        session.c_str());
  }
  return from_status(action(*found));
}

ProgramRunner::ProgramRunner(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ProgramRunner::~ProgramRunner() = default;

RunnerStatus ProgramRunner::load(const RunnerConfig& config, std::unique_ptr<ProgramRunner>& out) {
  et::runtime_init();
  auto impl = std::make_unique<Impl>();
  impl->path = config.program;
  impl->event_tracer = config.event_tracer;
  if (RunnerStatus status = impl->open_program(); !status.ok()) {
    return status;
  }
  if (RunnerStatus status = impl->open_data(config.data_files); !status.ok()) {
    return status;
  }
  if (RunnerStatus status = impl->set_options(config.options); !status.ok()) {
    return status;
  }
  out.reset();
  std::unique_ptr<ProgramRunner> runner(new ProgramRunner(std::move(impl)));
  out = std::move(runner);
  return {};
}

const std::vector<std::string>& ProgramRunner::method_names() const { return impl_->method_names; }

bool ProgramRunner::has_method(const std::string& name) const {
  const std::vector<std::string>& names = impl_->method_names;
  return std::find(names.begin(), names.end(), name) != names.end();
}

RunnerStatus ProgramRunner::method_info(const std::string& name, MethodInfo& out) const {
  return impl_->info_of(name, out);
}

RunnerStatus ProgramRunner::load_method(const std::string& name) {
  LoadedMethod* loaded = nullptr;
  return impl_->find_method(name, loaded);
}

RunnerStatus ProgramRunner::run(const std::string& method, std::span<const TensorView> inputs,
                                std::vector<TensorView>& outputs) {
  LoadedMethod* loaded = nullptr;
  if (RunnerStatus status = impl_->find_method(method, loaded); !status.ok()) {
    return status;
  }
  return loaded->run(inputs, outputs);
}

RunnerStatus ProgramRunner::constant(const std::string& method, int64_t& out) {
  std::vector<TensorView> outputs;
  if (RunnerStatus status = run(method, {}, outputs); !status.ok()) {
    return status;
  }
  const TensorView* first = outputs.empty() ? nullptr : outputs.data();
  if (first == nullptr || first->data == nullptr ||
      first->nbytes() != executorch::runtime::elementSize(first->dtype)) {
    return runner_error(et::Error::InvalidType, "method '%s' does not give one number",
                        method.c_str());
  }
  switch (first->dtype) {
    case ScalarType::Long:
      out = *first->as<int64_t>();
      return {};
    case ScalarType::Int:
      out = *first->as<int32_t>();
      return {};
    case ScalarType::Bool:
      out = *first->as<bool>() ? 1 : 0;
      return {};
    default:
      return runner_error(et::Error::InvalidType, "method '%s' gives %s, not an integer",
                          method.c_str(), dtype_text(first->dtype));
  }
}

const executorch::runtime::NamedDataMap* ProgramRunner::data_map() const { return impl_->data_map; }

const std::string& ProgramRunner::session_name() const { return impl_->session; }

RunnerStatus ProgramRunner::reset() {
  return impl_->with_session([](Session& session) {
    session.reset();
    return Status();
  });
}

RunnerStatus ProgramRunner::rewind(int64_t position) {
  return impl_->with_session([&](Session& session) { return session.rewind(position); });
}

RunnerStatus ProgramRunner::fork_to(ProgramRunner& target) {
  const std::shared_ptr<Session> to = target.impl_->live_session();
  if (to == nullptr) {
    return runner_error(et::Error::NotFound,
                        "session '%s' has no state: load the methods that use it first",
                        target.impl_->session.c_str());
  }
  return impl_->with_session([&](Session& from) { return Session::fork(from, *to); });
}

RunnerStatus ProgramRunner::save_session(const std::string& path) {
  return impl_->with_session([&](Session& session) { return session.save(path); });
}

RunnerStatus ProgramRunner::restore_session(const std::string& path) {
  return impl_->with_session([&](Session& session) { return session.restore(path); });
}

int64_t ProgramRunner::used_positions() const {
  const std::shared_ptr<Session> session = impl_->live_session();
  return session == nullptr ? 0 : session->used();
}

int64_t ProgramRunner::position_capacity() const {
  const std::shared_ptr<Session> session = impl_->live_session();
  return session == nullptr ? 0 : session->capacity();
}

}  // namespace executorch_ggml
