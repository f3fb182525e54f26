// The native JSON format ("treeformer-skeleton", version 1) to a Graph and back. The round trip is exact.

export { DocumentError } from "./document/checks.ts";
export { FORMAT, MAX_PX, NO_WORK, VERSION } from "./document/format.ts";
export type { EditorInfo, SkeletonDocument } from "./document/format.ts";
export { fromDocument, loadDocument } from "./document/read.ts";
export type { Loaded } from "./document/read.ts";
export { toDocument } from "./document/write.ts";
