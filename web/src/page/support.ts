// What the browser must be able to do.

/** A module with one 128-bit instruction: it is valid only if the browser has WebAssembly SIMD. */
const SIMD = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11,
];

/** One sentence on what is missing for prediction; null if nothing is. */
export function missingFeature(scope: {
  WebAssembly?: Pick<typeof WebAssembly, "validate"> | undefined;
  Worker?: unknown;
  OffscreenCanvas?: unknown;
}): string | null {
  const advice = "Use a current version of Firefox, Chrome, Edge or Safari.";
  if (!scope.WebAssembly?.validate(Uint8Array.from(SIMD))) {
    return `This browser has no WebAssembly SIMD, which prediction needs. ${advice}`;
  }
  if (!scope.Worker || !scope.OffscreenCanvas) return `This browser has no OffscreenCanvas, which prediction needs. ${advice}`;
  return null;
}
