#include "runtime/platform/system_info.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/platform/cpu_affinity.h"

#if defined(__linux__)
#include <unistd.h>

#include <fstream>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#elif defined(__APPLE__)
#include <sys/resource.h>
#include <sys/sysctl.h>
#elif defined(_WIN32)
#include <windows.h>
// After windows.h, which it builds on.
#include <psapi.h>
#endif

namespace executorch_ggml {
namespace {

int logical_processor_count() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

#if defined(__linux__)

int physical_core_count() {
  const std::vector<int> allowed = allowed_cpus();
  if (allowed.empty()) {
    return logical_processor_count();
  }
  // Hardware threads of one core name the same siblings.
  std::set<std::string> cores;
  for (const int cpu : allowed) {
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                       "/topology/thread_siblings");
    std::string siblings;
    if (!std::getline(file, siblings)) {
      siblings = std::to_string(cpu);
    }
    cores.insert(siblings);
  }
  return static_cast<int>(cores.size());
}

uint64_t physical_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_size = sysconf(_SC_PAGE_SIZE);
  return pages <= 0 || page_size <= 0
             ? 0
             : static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_size);
}

uint64_t peak_memory_bytes() {
  // Not getrusage: its peak begins with that of the process that started this one.
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "VmHWM: %" SCNu64 " kB", &kib) == 1) {
      return kib * 1024;
    }
  }
  return 0;
}

#elif defined(__APPLE__)

int physical_core_count() {
  int cores = 0;
  size_t size = sizeof(cores);
  // Efficiency cores would make every barrier wait for them.
  if (sysctlbyname("hw.perflevel0.physicalcpu", &cores, &size, nullptr, 0) == 0 && cores > 0) {
    return cores;
  }
  size = sizeof(cores);
  if (sysctlbyname("hw.physicalcpu", &cores, &size, nullptr, 0) == 0 && cores > 0) {
    return cores;
  }
  return logical_processor_count();
}

uint64_t physical_memory_bytes() {
  uint64_t bytes = 0;
  size_t size = sizeof(bytes);
  return sysctlbyname("hw.memsize", &bytes, &size, nullptr, 0) == 0 ? bytes : 0;
}

uint64_t peak_memory_bytes() {
  rusage usage = {};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_maxrss) : 0;
}

#elif defined(_WIN32)

int physical_core_count() { return logical_processor_count(); }

uint64_t physical_memory_bytes() {
  MEMORYSTATUSEX status;
  status.dwLength = sizeof(status);
  return GlobalMemoryStatusEx(&status) != 0 ? status.ullTotalPhys : 0;
}

uint64_t peak_memory_bytes() {
  PROCESS_MEMORY_COUNTERS counters;
  return GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof(counters)) != 0
             ? counters.PeakWorkingSetSize
             : 0;
}

#else

int physical_core_count() { return logical_processor_count(); }

uint64_t physical_memory_bytes() { return 0; }

uint64_t peak_memory_bytes() { return 0; }

#endif

#if defined(__x86_64__)
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool has_avx512() { return has_avx2() && __builtin_cpu_supports("avx512f"); }

bool has_avx512_vnni() {
  return has_avx512() && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vnni");
}
#else
bool has_avx2() { return false; }
bool has_avx512() { return false; }
bool has_avx512_vnni() { return false; }
#endif

bool has_arm_dot_product() {
#if defined(__aarch64__) && defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#elif defined(__aarch64__) && defined(__APPLE__)
  return true;  // all that macOS runs on
#else
  return false;
#endif
}

}  // namespace executorch_ggml
