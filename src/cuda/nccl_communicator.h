// NCCL behind the interface of cuda/module.h.
#pragma once

#include "cuda/module.h"

namespace kiln {

std::string make_nccl_id(std::string* fault);
NcclGroup* make_nccl_group(const NcclSeat& seat);

}  // namespace kiln
