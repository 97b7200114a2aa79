// The weights that torchvision publishes, by a word in place of a file: `torchvision`, or
// `torchvision:v2` for the second file of a network that has two. A file of such a name is
// `./torchvision`. Also used by the command line, so it does not depend on LibTorch.
#pragma once

#include <string>
#include <string_view>

#include "model/catalogue.h"

namespace kiln {

bool names_torchvision(std::string_view weights);

// Whether torchvision has weights of the network.
bool is_torchvisions(const KnownNetwork& network);

// The URL of the file that a word means for the network. Throws Error kUserError, with the networks
// that have one, if there is none.
std::string torchvisions_url(const KnownNetwork& network, std::string_view word);

}  // namespace kiln
