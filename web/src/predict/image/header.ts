// What the first bytes of a file say, before the browser decodes it.

export interface ImageHeader {
  readonly format: "png" | "jpeg" | "webp" | "gif" | "bmp" | "avif" | "tiff" | null;
  /** Set for PNG only. */
  readonly png: { width: number; height: number; bits: number; color: number; interlaced: boolean } | null;
}

/** Number of bytes that `readHeader` looks at. */
export const HEADER_BYTES = 32;

export function readHeader(bytes: Uint8Array): ImageHeader {
  const text = String.fromCharCode(...bytes.subarray(0, HEADER_BYTES));
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (text.startsWith("\x89PNG\r\n\x1a\n") && text.slice(12, 16) === "IHDR" && bytes.length >= 29) {
    const [bits, color] = [view.getUint8(24), view.getUint8(25)];
    const size = { width: view.getUint32(16), height: view.getUint32(20) };
    return { format: "png", png: { ...size, bits, color, interlaced: view.getUint8(28) !== 0 } };
  }
  const is = (format: ImageHeader["format"]): ImageHeader => ({ format, png: null });
  if (text.startsWith("\xff\xd8\xff")) return is("jpeg");
  if (text.startsWith("RIFF") && text.slice(8, 12) === "WEBP") return is("webp");
  if (text.startsWith("GIF8")) return is("gif");
  if (text.startsWith("BM")) return is("bmp");
  if (text.slice(4, 8) === "ftyp" && /avi[fs]/.test(text.slice(8))) return is("avif");
  if (text.startsWith("II*\0") || text.startsWith("MM\0*")) return is("tiff");
  return is(null);
}
