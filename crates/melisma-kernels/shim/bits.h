// Floats as their bits.
#pragma once

#include <cstdint>
#include <cstring>

inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
