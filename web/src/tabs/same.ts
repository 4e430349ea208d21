// Whether two values say the same: so that live updates which change nothing redraw nothing.
import { type Accessor, createMemo } from "solid-js";

const same = (a: unknown, b: unknown): boolean => JSON.stringify(a) === JSON.stringify(b);

export const createSame = <T>(value: () => T): Accessor<T> => createMemo(value, undefined, { equals: same });
