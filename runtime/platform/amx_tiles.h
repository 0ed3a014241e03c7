// The tiles of AMX: leave to use them, and the tile configuration of a thread, which ggml sets once
// and then relies on.
//
// Another library in the thread (PyTorch's oneDNN) sets its own, and a product with the
// wrong one is an illegal instruction. ggml's own threads are its alone; the thread that
// calls us is not.
#pragma once

namespace executorch_ggml {

// Whether the processor multiplies tiles of BF16 and the system lets this process use tiles, which
// it is asked for once.
bool request_bf16_tiles();

// While it lives, the calling thread has ggml's tile configuration; then it gets back
// what it had. Does nothing where ggml was built without AMX or the machine has none.
class AmxTileScope {
 public:
  AmxTileScope();
  ~AmxTileScope();
  AmxTileScope(const AmxTileScope&) = delete;
  AmxTileScope& operator=(const AmxTileScope&) = delete;

 private:
  alignas(64) unsigned char before_[64] = {};
};

}  // namespace executorch_ggml
