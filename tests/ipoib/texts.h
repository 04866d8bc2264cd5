// Addresses by their text, for the tests of IPoIB.
#pragma once

#include "ipoib/addresses.h"

namespace softib::ipoib {

inline Ip ip(const char* text) { return parse_ip(text).value(); }

}  // namespace softib::ipoib
