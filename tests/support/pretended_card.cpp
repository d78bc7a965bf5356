// A GPU that is not there, for PyTorch's CPU build: tensors on cuda:0 whose memory is the host's.
//
// The CPU build has the dispatch key CUDA but no kernels behind it. Every operator that reaches the key comes to
// run_on_host(), which gives the operator's CPU kernel aliases of the same memory. So PyTorch's own checks of devices,
// its autograd thread of the GPU and its refusals are those of a GPU.

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <set>
#include <string>

using at::Tensor, at::detail::make_tensor;
using c10::IValue, c10::Storage, c10::StorageImpl, c10::TensorImpl;
using Keys = c10::DispatchKeySet;
using torch::jit::Stack;

static const c10::Device CARD(c10::kCUDA, 0), HOST(c10::kCPU);
static void (*on_wait)() = nullptr;  // is called where something waits for the card
extern "C" __attribute__((visibility("default"))) void tell_waits(void (*f)()) { on_wait = f; }

// Operators whose CUDA kernels read a number on the host.
static const std::set<std::string> READERS = {
    "_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique2", "unique_consecutive",
    "unique_dim", "repeat_interleave", "bincount", "is_nonzero", "masked_scatter_"};

// The same memory on the other device, kept by `storage`.
static Storage alias(const Storage& storage, c10::Device device) {
  auto free = [](void* owner) { delete static_cast<Storage*>(owner); };
  return c10::make_intrusive<StorageImpl>(
      StorageImpl::use_byte_size_t(), storage.nbytes(),
      c10::DataPtr(storage.mutable_data(), new Storage(storage), free, device), c10::GetAllocator(c10::kCPU), true);
}

static Tensor with_sizes(Tensor t, const Tensor& like) {
  t.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return t;
}

// What is on the card of an operator's arguments, and its aliases on the host.
struct Aliases {
  std::vector<std::pair<Tensor, Tensor>> known;

  Tensor to_host(const Tensor& t) {
    if (!t.defined() || !t.is_cuda()) return t;
    auto host = make_tensor<TensorImpl>(alias(t.storage(), HOST), Keys(c10::DispatchKey::CPU), t.dtype());
    return known.emplace_back(t, with_sizes(host, t)).second;
  }

  Tensor to_card(const Tensor& t) {
    if (!t.defined()) return t;
    const void* memory = t.storage().data();
    for (auto& [card, host] : known) {
      if (host.is_same(t)) {
        if (card.storage().data() != memory)  // it was resized, as out= is
          card.unsafeGetTensorImpl()->set_storage_keep_dtype(alias(t.storage(), CARD));
        return with_sizes(card, t);
      }
      if (memory && card.storage().data() == memory)  // a view: with the keys of what it views, as inference asks
        return with_sizes(
            make_tensor<TensorImpl>(TensorImpl::VIEW, Storage(card.storage()), card.key_set(), t.dtype()), t);
    }
    return with_sizes(make_tensor<TensorImpl>(alias(t.storage(), CARD), Keys(c10::DispatchKey::CUDA), t.dtype()), t);
  }
};

// `value` with `f` of each tensor in it.
template <typename F>
static IValue each(const IValue& value, F f) {
  if (value.isTensor()) return f(value.toTensor());
  if (!value.isList()) return value;
  auto list = value.toList().copy();
  for (size_t i = 0; i < list.size(); i++) list.set(i, each(list.get(i), f));
  return list;
}

static void run_on_host(const c10::OperatorHandle& op, Stack* stack) {
  const std::string full = op.schema().name(), name = full.substr(full.find("::") + 2);
  const bool copies = name == "copy_", indexes = name.find("index") != std::string::npos;
  const auto given = stack->end() - op.schema().arguments().size();
  const bool downwards = copies && !given[0].toTensor().is_cuda(), upwards = copies && !given[1].toTensor().is_cuda();
  if (on_wait && (READERS.count(name) || downwards || (upwards && !given[2].toBool()))) on_wait();
  Aliases aliases;
  bool any = false, foreign = false;
  for (auto argument = given; argument != stack->end(); argument++) {
    const bool list = argument->isList();
    *argument = each(*argument, [&](const Tensor& t) {
      any |= t.defined() && t.is_cuda();
      foreign |= t.defined() && !t.is_cuda() && t.dim() > 0 && !copies && !(indexes && list);
      return aliases.to_host(t);
    });
    if (argument->isDevice() && argument->toDevice().is_cuda()) *argument = HOST;
  }
  TORCH_CHECK(!(any && foreign), full, ": Expected all tensors to be on the same device, but found cuda:0 and cpu");
  at::AutoDispatchBelowADInplaceOrView guard;
  op.redispatchBoxed(Keys(c10::DispatchKey::CPU), stack);
  for (auto value = stack->end() - op.schema().returns().size(); value != stack->end(); value++)
    *value = each(*value, [&](const Tensor& t) { return aliases.to_card(t); });
}

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>()); }
// Composite in PyTorch, with tables of kernels by device behind it.
TORCH_LIBRARY_IMPL(aten, CUDA, m) { m.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&run_on_host>()); }

struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::kCUDA> {
  c10::Device exchangeDevice(c10::Device) const override { return CARD; }
  c10::Device getDevice() const override { return CARD; }
  c10::Stream getStream(c10::Device) const noexcept override { return c10::Stream(c10::Stream::DEFAULT, CARD); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return getStream(CARD); }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);

namespace at {
struct CUDAHooks final : CUDAHooksInterface {  // PyTorch looks for this name
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
};
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at
