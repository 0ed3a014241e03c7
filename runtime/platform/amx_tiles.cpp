#include "runtime/platform/amx_tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace executorch_ggml {
namespace {

// What CPUID answers; zeros where it has no such leaf.
struct Cpuid {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;

  explicit Cpuid(unsigned leaf) { __get_cpuid_count(leaf, 0, &a, &b, &c, &d); }
};

// Whether the processor has tiles and the system keeps their state.
bool find_tiles() {
  constexpr unsigned kOsXsave = 1U << 27;
  constexpr unsigned kAmxTile = 1U << 24;
  constexpr unsigned kTileState = 3U << 17;  // configuration and data, in XCR0
  if ((Cpuid(1).c & kOsXsave) == 0 || (Cpuid(7).d & kAmxTile) == 0) {
    return false;
  }
  unsigned low = 0;
  unsigned high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & kTileState) == kTileState;
}

bool has_tiles() {
  static const bool found = find_tiles();
  return found;
}

bool find_bf16_tiles() {
  constexpr unsigned kAmxBf16 = 1U << 22;
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return has_tiles() && (Cpuid(7).d & kAmxBf16) != 0 &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

__attribute__((target("amx-tile"))) void store(unsigned char* config) { _tile_storeconfig(config); }

// The first byte is the palette; 0 stands for no configuration.
__attribute__((target("amx-tile"))) void load(const unsigned char* config) {
  if (config[0] != 0) {
    _tile_loadconfig(config);
  } else {
    _tile_release();
  }
}

// What ggml left in this thread the last time.
struct Remembered {
  alignas(64) unsigned char config[64] = {};
};

Remembered& remembered() {
  thread_local Remembered found;
  return found;
}

}  // namespace

bool request_bf16_tiles() {
  static const bool granted = find_bf16_tiles();
  return granted;
}

AmxTileScope::AmxTileScope() {
  if (!has_tiles()) {
    return;
  }
  store(before_);
  const unsigned char* ours = remembered().config;
  if (ours[0] != 0 && std::memcmp(ours, before_, sizeof(before_)) != 0) {
    load(ours);
  }
}

AmxTileScope::~AmxTileScope() {
  if (!has_tiles()) {
    return;
  }
  alignas(64) unsigned char now[64];
  store(now);
  if (std::memcmp(now, before_, sizeof(now)) != 0) {
    std::memcpy(remembered().config, now, sizeof(now));
    load(before_);
  }
}

}  // namespace executorch_ggml

#else

namespace executorch_ggml {

bool request_bf16_tiles() { return false; }

AmxTileScope::AmxTileScope() = default;
AmxTileScope::~AmxTileScope() = default;

}  // namespace executorch_ggml

#endif
