// SPDX-License-Identifier: Apache-2.0
// From what lines and rules say to how often that is right.
#pragma once

namespace gpuwarden::diagnosis {

/// The confidence, 0 to 1, of a first cause of this weight, 0 to 1: how often such causes were right in labelled
/// failures. Grows with the weight.
double calibrated(double weight);

/// The weight that a first cause has of which this is the confidence: what calibrated() is learned from anew.
double weight_of(double confidence);

}  // namespace gpuwarden::diagnosis
