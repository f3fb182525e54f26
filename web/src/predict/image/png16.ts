// 16-bit grayscale PNG. Browsers keep the upper byte only, and cameras store 10 or 12 bits in 16.

/** Gray values of a 16-bit grayscale PNG that is not interlaced. */
export async function decodeGray16(bytes: Uint8Array): Promise<{ width: number; height: number; values: Uint16Array }> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [width, height] = [view.getUint32(16), view.getUint32(20)];
  const parts: Uint8Array[] = [];
  for (let at = 8; at + 12 <= bytes.length; ) {
    const length = view.getUint32(at);
    const name = String.fromCharCode(...bytes.subarray(at + 4, at + 8));
    if (at + 12 + length > bytes.length) throw new Error("the file ends too early");
    if (name === "IDAT") parts.push(bytes.subarray(at + 8, at + 8 + length));
    if (name === "IEND") break;
    at += 12 + length;
  }
  const packed = new Blob(parts as BlobPart[]).stream().pipeThrough(new DecompressionStream("deflate"));
  const raw = new Uint8Array(await new Response(packed).arrayBuffer());
  const line = 2 * width;
  if (raw.length < height * (line + 1)) throw new Error("the file ends too early");
  const rows = new Uint8Array(height * line);
  for (let y = 0; y < height; y++) {
    unfilter(raw.subarray(y * (line + 1), (y + 1) * (line + 1)), rows, y * line, line);
  }
  const values = new Uint16Array(width * height);
  for (let k = 0; k < values.length; k++) values[k] = ((rows[2 * k] as number) << 8) | (rows[2 * k + 1] as number);
  return { width, height, values };
}

/** Undo the filter of one row; a pixel has two bytes. */
function unfilter(filtered: Uint8Array, rows: Uint8Array, start: number, line: number): void {
  const kind = filtered[0] as number;
  for (let x = 0; x < line; x++) {
    const left = x >= 2 ? (rows[start + x - 2] as number) : 0;
    const up = start > 0 ? (rows[start + x - line] as number) : 0;
    const corner = x >= 2 && start > 0 ? (rows[start + x - line - 2] as number) : 0;
    let guess = 0;
    if (kind === 1) guess = left;
    else if (kind === 2) guess = up;
    else if (kind === 3) guess = (left + up) >> 1;
    else if (kind === 4) guess = paeth(left, up, corner);
    rows[start + x] = (filtered[x + 1] as number) + guess;
  }
}

function paeth(left: number, up: number, corner: number): number {
  const [a, b, c] = [Math.abs(up - corner), Math.abs(left - corner), Math.abs(left + up - 2 * corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}
