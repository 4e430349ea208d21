// Binary frames of the API: "TSB1", length of the header, header as JSON, arrays padded to 8 bytes.

export type Numbers = Float64Array | Float32Array | Uint8Array;
export type FrameItem<T> = T & { arrays: Record<string, Numbers> };

const KINDS: Record<string, { size: number; make: (buffer: ArrayBuffer, at: number, count: number) => Numbers }> = {
  f8: { size: 8, make: (buffer, at, count) => new Float64Array(buffer, at, count) },
  f4: { size: 4, make: (buffer, at, count) => new Float32Array(buffer, at, count) },
  u1: { size: 1, make: (buffer, at, count) => new Uint8Array(buffer, at, count) },
};

type Described<T> = T & { arrays: Record<string, [number, number, string]> };

export function decodeFrame<T = unknown>(buffer: ArrayBuffer): FrameItem<T>[] {
  const view = new DataView(buffer);
  if (buffer.byteLength < 8 || view.getUint32(0, false) !== 0x54534231) throw new Error("The response is no binary frame (it does not start with TSB1).");
  const length = view.getUint32(4, true);
  if (8 + length > buffer.byteLength) throw new Error(`The frame is cut off: its header has ${length} bytes.`);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length))) as { items: Described<T>[] };
  const first = Math.ceil((8 + length) / 8) * 8;
  return header.items.map((item) => {
    const arrays: Record<string, Numbers> = {};
    for (const [name, [offset, count, kind]] of Object.entries(item.arrays)) {
      const made = KINDS[kind];
      if (!made) throw new Error(`The frame has an array of unknown kind "${kind}".`);
      if (first + offset + count * made.size > buffer.byteLength) throw new Error(`The frame is cut off in array "${name}".`);
      arrays[name] = made.make(buffer, first + offset, count);
    }
    return { ...item, arrays };
  });
}

// How long the frame is that starts with these bytes; null while they are too few to tell.
export function frameLength(bytes: Uint8Array): number | null {
  if (bytes.length < 8) return null;
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(4, true);
  if (bytes.length < 8 + length) return null;
  const { items } = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length))) as { items: Described<unknown>[] };
  let end = Math.ceil((8 + length) / 8) * 8;
  const first = end;
  for (const item of items) {
    for (const [offset, count, kind] of Object.values(item.arrays)) end = Math.max(end, first + Math.ceil((offset + count * (KINDS[kind]?.size ?? 1)) / 8) * 8);
  }
  return end;
}

// Frames one after the other, each handed over as soon as it is complete.
export class FrameReader<T> {
  private rest = new Uint8Array(0);
  private wanted: number | null = null;

  constructor(private readonly take: (items: FrameItem<T>[]) => void) {}

  add(chunk: Uint8Array): void {
    const joined = new Uint8Array(this.rest.length + chunk.length);
    joined.set(this.rest);
    joined.set(chunk, this.rest.length);
    this.rest = joined;
    for (;;) {
      this.wanted ??= frameLength(this.rest);
      if (this.wanted === null || this.rest.length < this.wanted) return;
      const whole = this.rest.slice(0, this.wanted);
      this.rest = this.rest.subarray(this.wanted);
      this.wanted = null;
      this.take(decodeFrame<T>(whole.buffer));
    }
  }

  end(): void {
    if (this.rest.length) throw new Error("The response is cut off: its last frame is not complete.");
  }
}
