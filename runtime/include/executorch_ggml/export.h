// Marks the names that libexecutorch_ggml_runtime shows to its users.
#pragma once

#if defined(_WIN32)
#if defined(EXECUTORCH_GGML_BUILDING)
#define EXECUTORCH_GGML_API __declspec(dllexport)
#else
#define EXECUTORCH_GGML_API __declspec(dllimport)
#endif
#else
#define EXECUTORCH_GGML_API __attribute__((visibility("default")))
#endif
