// A GPU that is not there, for PyTorch's CPU build: tensors on cuda:0 whose memory is the host's.
//
// The CPU build has the dispatch key CUDA but no kernels behind it. Every operator that reaches the key comes to
// run_on_host(), which gives the operator's CPU kernel aliases of the same memory. So PyTorch's own checks of devices,
// its autograd thread of the GPU and its refusals are those of a GPU.

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <map>
#include <set>
#include <string>

using at::Tensor;
using c10::IValue;
using c10::StorageImpl;
using torch::jit::Stack;

static const c10::Device CARD(c10::kCUDA, 0);
static void (*on_wait)(const char*) = nullptr;  // is told the operator that waits for the card
extern "C" __attribute__((visibility("default"))) void tell_waits(void (*f)(const char*)) { on_wait = f; }

// Operators whose CUDA kernels read a number on the host.
static const std::set<std::string> READERS = {
    "_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique2", "unique_consecutive",
    "unique_dim", "repeat_interleave", "bincount", "is_nonzero", "masked_scatter_"};

static Tensor make(c10::Storage storage, const Tensor& like, c10::DispatchKey key) {
  auto result = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  return result;
}

static c10::Storage storage_of(size_t bytes, c10::DataPtr data) {
  return c10::make_intrusive<StorageImpl>(
      StorageImpl::use_byte_size_t(), bytes, std::move(data), c10::GetAllocator(c10::kCPU), true);
}

// The card's name for memory that `owner` keeps.
static c10::DataPtr on_card(const c10::Storage& owner) {
  auto keep = new c10::Storage(owner);
  return {owner.mutable_data(), keep, [](void* p) { delete static_cast<c10::Storage*>(p); }, CARD};
}

// One operator's tensors on the card, as the CPU's.
struct Aliases {
  std::vector<std::pair<Tensor, Tensor>> pairs;  // a tensor on the card, its alias
  std::map<StorageImpl*, c10::Storage> storages;  // an alias's storage -> the card's
  std::map<StorageImpl*, c10::Storage> known;     // the reverse

  bool in(const Tensor& t) const { return t.defined() && t.is_cuda(); }

  c10::Storage to_host(const c10::Storage& storage) {
    auto* impl = storage.unsafeGetStorageImpl();
    auto& alias = known[impl];
    if (!alias) {
      alias = storage_of(impl->nbytes(), {impl->mutable_data(), c10::kCPU});
      storages[alias.unsafeGetStorageImpl()] = storage;
    }
    return alias;
  }

  Tensor to_host(const Tensor& t) {
    if (!in(t)) return t;
    pairs.emplace_back(t, make(to_host(t.storage()), t, c10::DispatchKey::CPU));
    return pairs.back().second;
  }

  Tensor to_card(const Tensor& t) {
    if (!t.defined()) return t;
    for (auto& [original, alias] : pairs) {
      if (alias.is_same(t)) return original;
      if (alias.storage().is_alias_of(t.storage())) {  // a view; of a parameter no inference tensor
        auto view = at::detail::make_tensor<c10::TensorImpl>(
            c10::TensorImpl::VIEW, c10::Storage(original.storage()), original.key_set(), t.dtype());
        view.unsafeGetTensorImpl()->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
        return view;
      }
    }
    return make(storage_of(t.storage().nbytes(), on_card(t.storage())), t, c10::DispatchKey::CUDA);
  }

  // What an operator gave another size or storage (out=, resize_, set_).
  void update() {
    for (auto& [alias, original] : storages)
      if (alias->data() != original.data()) {
        auto grown = c10::Storage(c10::intrusive_ptr<StorageImpl>::reclaim_copy(alias));
        original.unsafeGetStorageImpl()->set_data_ptr_noswap(on_card(grown));
        original.unsafeGetStorageImpl()->set_nbytes(alias->nbytes());
      }
    for (auto& [original, alias] : pairs) {
      auto own = storages.find(alias.storage().unsafeGetStorageImpl());
      auto* impl = original.unsafeGetTensorImpl();
      if (own == storages.end()) impl->set_storage_keep_dtype(storage_of(alias.storage().nbytes(), on_card(alias.storage())));
      else if (!own->second.is_alias_of(original.storage())) impl->set_storage_keep_dtype(own->second);
      if (original.sizes() != alias.sizes() || original.strides() != alias.strides() ||
          original.storage_offset() != alias.storage_offset())
        impl->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
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
      any |= aliases.in(t);
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
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
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

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    return on_card(storage_of(n, c10::GetAllocator(c10::kCPU)->allocate(n)));
  }
  void copy_data(void* to, const void* from, std::size_t n) const override { default_copy_data(to, from, n); }
} memory;
REGISTER_ALLOCATOR(c10::kCUDA, &memory);

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
