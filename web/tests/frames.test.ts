import { describe, expect, test } from "vitest";
import { decodeFrame, FrameReader } from "../src/frames";

// As the server writes it: magic, length, header, padding, arrays padded to eight bytes.
function frame(items: { name: string; arrays: Record<string, Float64Array | Float32Array | Uint8Array> }[]): ArrayBuffer {
  const kinds = new Map<string, string>([["Float64Array", "f8"], ["Float32Array", "f4"], ["Uint8Array", "u1"]]);
  const bodies: Uint8Array[] = [];
  let offset = 0;
  const described = items.map((item) => {
    const arrays: Record<string, [number, number, string]> = {};
    for (const [name, array] of Object.entries(item.arrays)) {
      arrays[name] = [offset, array.length, kinds.get(array.constructor.name)!];
      const padded = new Uint8Array(Math.ceil(array.byteLength / 8) * 8);
      padded.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
      bodies.push(padded);
      offset += padded.length;
    }
    return { name: item.name, arrays };
  });
  const header = new TextEncoder().encode(JSON.stringify({ items: described }));
  const first = Math.ceil((8 + header.length) / 8) * 8;
  const whole = new Uint8Array(first + offset);
  whole.set(new TextEncoder().encode("TSB1"));
  new DataView(whole.buffer).setUint32(4, header.length, true);
  whole.set(header, 8);
  let at = first;
  for (const body of bodies) {
    whole.set(body, at);
    at += body.length;
  }
  return whole.buffer;
}

describe("binary frames", () => {
  test("arrays of every kind come back, whatever the length of the header", () => {
    for (const name of ["", "ä", "a".repeat(5), "b".repeat(1000)]) {
      const [item, second] = decodeFrame<{ name: string }>(frame([
        { name, arrays: { x: Float64Array.of(1, 2.5, NaN), cells: Uint8Array.of(0, 251, 255) } },
        { name: "other", arrays: { y: Float32Array.of(0.5) } },
      ]));
      expect(item!.name).toBe(name);
      expect([...item!.arrays.x!]).toEqual([1, 2.5, NaN]);
      expect([...item!.arrays.cells!]).toEqual([0, 251, 255]);
      expect([...second!.arrays.y!]).toEqual([0.5]);
    }
  });

  test("no item is an empty list", () => expect(decodeFrame(frame([]))).toEqual([]));

  test("what is no frame, or is cut off, says so", () => {
    const whole = frame([{ name: "a", arrays: { x: Float64Array.of(1, 2, 3) } }]);
    expect(() => decodeFrame(new ArrayBuffer(3))).toThrow("no binary frame");
    expect(() => decodeFrame(new TextEncoder().encode("<html>….").buffer as ArrayBuffer)).toThrow("no binary frame");
    expect(() => decodeFrame(whole.slice(0, 20))).toThrow("cut off");
    expect(() => decodeFrame(whole.slice(0, whole.byteLength - 8))).toThrow('cut off in array "x"');
  });
});

describe("a stream of frames", () => {
  const whole = [frame([{ name: "a", arrays: { x: Float64Array.of(1, 2, 3), y: Uint8Array.of(7) } }]), frame([]), frame([{ name: "ünd b", arrays: { x: Float64Array.of(4) } }])];
  const bytes = new Uint8Array(whole.reduce((sum, each) => sum + each.byteLength, 0));
  whole.reduce((at, each) => { bytes.set(new Uint8Array(each), at); return at + each.byteLength; }, 0);

  test.each([1, 3, 7, 64, 10_000])("in pieces of %i bytes is the same items", (size) => {
    const seen: [string, number[]][] = [];
    const reader = new FrameReader<{ name: string }>((items) => items.forEach((item) => seen.push([item.name, [...item.arrays.x!]])));
    for (let at = 0; at < bytes.length; at += size) reader.add(bytes.subarray(at, at + size));
    reader.end();
    expect(seen).toEqual([["a", [1, 2, 3]], ["ünd b", [4]]]);
  });

  test("that ends too early says so", () => {
    const reader = new FrameReader(() => {});
    reader.add(bytes.subarray(0, bytes.length - 1));
    expect(() => reader.end()).toThrow("cut off");
  });
});
