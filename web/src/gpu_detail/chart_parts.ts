// SPDX-License-Identifier: Apache-2.0
// All that draws with dygraphs: one file of the bundle, loaded when it is wanted.
export { Charts } from "./charts";
export { Overview } from "./overview";
