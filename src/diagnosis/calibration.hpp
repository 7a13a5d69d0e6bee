// SPDX-License-Identifier: Apache-2.0
// From what lines and rules say to how often that is right.
#pragma once

namespace gpuwarden::diagnosis {

/// The confidence, 0 to 1, of a cause of this weight, 0 to 1: how often such causes were right in labelled failures.
double calibrated(double weight);

}  // namespace gpuwarden::diagnosis
