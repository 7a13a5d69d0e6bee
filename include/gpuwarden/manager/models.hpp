// SPDX-License-Identifier: Apache-2.0
// A model's shape by what people have of it.
#pragma once

#include <string>

#include "gpuwarden/base/result.hpp"
#include "gpuwarden/manager/downloads.hpp"
#include "gpuwarden/planning/model.hpp"

namespace gpuwarden::manager {

/// The model of a config.json or a GGUF file (with its further parts beside it), of the folder that holds one, or of
/// the catalogue's name (planning/catalog.hpp); a GGUF file that is not there is planned by its name. `family` reads a
/// config as one of another family, and is refused beside a name. Nothing is fetched. Fails with not_found where there
/// is no such file and no such name (the hint has those most like it), with invalid_argument or corrupt on a config
/// that read_config() refuses, and on a folder of a diffusion pipeline.
Result<planning::ModelShape> load_model(const std::string& what, const std::string& family = {},
                                        const ModelDownloads& downloads = {});

}  // namespace gpuwarden::manager
