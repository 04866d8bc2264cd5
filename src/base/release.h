// Owning what a C library gives, by the function that gives it back:
//
//   using Context = std::unique_ptr<ibv_context, Release<ibv_close_device>>;
#pragma once

namespace softib {

template <auto function>
struct Release {
  template <typename T>
  void operator()(T* object) const {
    function(object);
  }
};

}  // namespace softib
