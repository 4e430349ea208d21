import { expect, test } from "vitest";
import { growTensor, type TensorData } from "../src/tabs/heat/growTensor";

const tensor = (steps: number[], figures = ["mean"]): TensorData => ({
  name: "w", shape: [2], dtype: "float32", steps, figures: Object.fromEntries(figures.map((name) => [name, steps.map((step) => step / 10)])),
  histogram: { steps, edges: steps.map(() => [0, 1]), counts: steps.map(() => [2]) },
});

test("new steps follow those that are shown", () => {
  const grown = growTensor(tensor([0, 10]), tensor([20]))!;
  expect(grown.steps).toEqual([0, 10, 20]);
  expect(grown.figures).toEqual({ mean: [0, 1, 2] });
  expect(grown.histogram!.steps).toEqual([0, 10, 20]);
});

test("without new steps nothing changes", () => {
  const shown = tensor([0, 10]);
  expect(growTensor(shown, { ...tensor([]), figures: {} })).toBe(shown);
});

test("what cannot be joined is loaded anew", () => {
  expect(growTensor(tensor([0]), tensor([1], ["max"]))).toBeNull();
  expect(growTensor(tensor([0]), { ...tensor([1]), histogram: null })).toBeNull();
  expect(growTensor(tensor(Array.from({ length: 120 }, (_, at) => at)), tensor([200]))).toBeNull();
});
