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

using at::Tensor;
using c10::IValue, c10::Storage, c10::StorageImpl, c10::TensorImpl;
using Keys = c10::DispatchKeySet;
using torch::jit::Stack;

static const c10::Device CARD(c10::kCUDA, 0);
static void (*on_wait)(const char*) = nullptr;  // is told the operator that waits for the card
extern "C" __attribute__((visibility("default"))) void tell_waits(void (*f)(const char*)) { on_wait = f; }

// Operators whose CUDA kernels read a number on the host.
static const std::set<std::string> READERS = {
    "_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique2", "unique_consecutive",
    "unique_dim", "repeat_interleave", "bincount", "is_nonzero", "masked_scatter_"};

static Storage storage_of(size_t bytes, c10::DataPtr data) {
  return c10::make_intrusive<StorageImpl>(
      StorageImpl::use_byte_size_t(), bytes, std::move(data), c10::GetAllocator(c10::kCPU), true);
}

// The same memory, kept by `host`, as the card's.
static Storage on_card(const Storage& host) {
  auto free = [](void* owner) { delete static_cast<Storage*>(owner); };
  return storage_of(host.nbytes(), {host.mutable_data(), new Storage(host), free, CARD});
}

static Tensor with_sizes(Tensor t, const Tensor& like) {
  t.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return t;
}

// What is on the card of an operator's arguments, and its aliases on the host.
struct Aliases {
  std::vector<std::pair<Storage, Storage>> storages;
  std::vector<std::pair<Tensor, Tensor>> tensors;

  Storage to_host(const Storage& card) {
    for (auto& [known, host] : storages)
      if (known.is_alias_of(card)) return host;
    storages.emplace_back(card, storage_of(card.nbytes(), {card.mutable_data(), c10::kCPU}));
    return storages.back().second;
  }

  Tensor to_host(const Tensor& t) {
    if (!t.defined() || !t.is_cuda()) return t;
    auto alias = at::detail::make_tensor<TensorImpl>(to_host(t.storage()), Keys(c10::DispatchKey::CPU), t.dtype());
    tensors.emplace_back(t, with_sizes(alias, t));
    return alias;
  }

  Tensor to_card(const Tensor& t) {
    if (!t.defined()) return t;
    for (auto& [card, host] : tensors) {
      if (host.is_same(t)) return card;
      if (host.storage().is_alias_of(t.storage()))  // a view; it has the keys of what it views, as inference asks
        return with_sizes(at::detail::make_tensor<TensorImpl>(
            TensorImpl::VIEW, Storage(card.storage()), card.key_set(), t.dtype()), t);
    }
    return with_sizes(at::detail::make_tensor<TensorImpl>(
        on_card(t.storage()), Keys(c10::DispatchKey::CUDA), t.dtype()), t);
  }

  // Takes over what the operator has given another size or storage (out=, resize_, set_).
  void update() {
    for (auto& [card, host] : storages)
      if (card.data() != host.data()) {
        auto grown = on_card(storage_of(host.nbytes(), std::move(host.unsafeGetStorageImpl()->mutable_data_ptr())));
        host.unsafeGetStorageImpl()->set_data_ptr_noswap({grown.mutable_data(), c10::kCPU});
        card.unsafeGetStorageImpl()->set_nbytes(grown.nbytes());
        card.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(grown.unsafeGetStorageImpl()->mutable_data_ptr()));
      }
    for (auto& [card, host] : tensors) {
      for (auto& [storage, alias] : storages)
        if (alias.is_alias_of(host.storage()) && !storage.is_alias_of(card.storage()))
          card.unsafeGetTensorImpl()->set_storage_keep_dtype(storage);
      with_sizes(card, host);
    }
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
  auto& schema = op.schema();
  const std::string full = schema.name(), name = full.substr(full.find("::") + 2);
  const bool copies = name == "copy_", indexes = name.find("index") != std::string::npos;
  Aliases aliases;
  Stack arguments(stack->end() - schema.arguments().size(), stack->end());
  torch::jit::drop(*stack, schema.arguments().size());
  const bool downwards = copies && !arguments[0].toTensor().is_cuda(), upwards = copies && !arguments[1].toTensor().is_cuda();
  if (on_wait && (READERS.count(name) || downwards || (upwards && !arguments[2].toBool())))
    on_wait(downwards ? "copy to the host" : upwards ? "copy to the card" : name.c_str());
  bool any = false, foreign = false;
  for (auto& argument : arguments) {
    const bool list = argument.isList();
    argument = each(argument, [&](const Tensor& t) {
      any |= t.defined() && t.is_cuda();
      foreign |= t.defined() && !t.is_cuda() && t.dim() > 0 && !copies && !(indexes && list);
      return aliases.to_host(t);
    });
    if (argument.isStorage() && argument.toStorage().device() == CARD) argument = aliases.to_host(argument.toStorage());
    if (argument.isDevice() && argument.toDevice().is_cuda()) argument = c10::Device(c10::kCPU);
  }
  TORCH_CHECK(!(any && foreign), full, ": Expected all tensors to be on the same device, but found cuda:0 and cpu");

  // Half precision to float32 at once, which only the GPU's kernels can.
  const bool softmax = name == "_softmax" || name == "_log_softmax";
  const bool backward = name == "_softmax_backward_data" || name == "_log_softmax_backward_data";
  Tensor narrow;
  if (softmax && arguments[2].toBool()) {
    arguments[0] = arguments[0].toTensor().to(at::kFloat);
    arguments[2] = false;
  }
  if (backward && arguments[3].toScalarType() != arguments[0].toTensor().scalar_type()) {
    narrow = arguments.back().toTensor();
    arguments[3] = at::kFloat;
    arguments.back() = at::empty(narrow.sizes(), at::kFloat);
  }

  at::AutoDispatchBelowADInplaceOrView guard;
  auto wide = narrow.defined() ? arguments.back().toTensor() : Tensor();
  for (auto& argument : arguments) stack->push_back(std::move(argument));
  op.redispatchBoxed(Keys(c10::DispatchKey::CPU), stack);
  aliases.update();
  if (narrow.defined()) {
    narrow.copy_(wide);
    stack->back() = narrow;
  }
  for (auto value = stack->end() - schema.returns().size(); value != stack->end(); value++)
    *value = each(*value, [&](const Tensor& t) { return aliases.to_card(t); });
}

TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>()); }
// Composite in PyTorch, with tables of kernels by device behind them.
TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

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
