// CUDA's header of this name, for a CPU.
#pragma once

#include "threads.h"

using __half = _Float16;
