import { describe, expect, test } from "vitest";
import type { Curve } from "../src/api";
import { CARD_HEIGHT, chartsOf, groupsOf, layoutOf, matcher, visibleItems } from "../src/charts";
import { joinCsv, quoted, toCsv } from "../src/csv";
import { joinPoints } from "../src/points";

function curve(name: string, chart: string, phase: Curve["phase"] = "", more: Partial<Curve> = {}): Curve {
  return { id: `${phase}${name}`, name, group: "", chart, phase, kind: "metric", unit: "", host: "", same_as: "", more_is_better: false, count: 1, first_step: 0, last_step: 1, last: 1, min: 1, max: 1, best: 1, best_step: 0, ...more };
}

const many = Array.from({ length: 2000 }, (_, at) => curve(`g${at % 20}/m${at}`, `g${at % 20}/m${at}`));

describe("charts of a job", () => {
  test("train and validation of one metric share a chart, in different colours", () => {
    const [chart] = chartsOf("job", [curve("train/loss", "loss", "train"), curve("val/loss", "loss", "val")], { final: true });
    expect(chart!.members.map((member) => member.label)).toEqual(["train", "val"]);
    expect(new Set(chart!.members.map((member) => member.colour)).size).toBe(2);
  });

  test("vitals of training and of evaluation batches have charts and groups of their own", () => {
    const vital = (mode: string, phase: Curve["phase"]): Curve => curve(`${mode}/vitals/activation/layers.3/std`, "hook vitals activation layers 3 std", phase, { kind: "vital" });
    const charts = chartsOf("job", [vital("TRAIN", "train"), vital("EVAL", "val")], { final: true });
    expect(charts.map((chart) => chart.title)).toEqual(["activation/layers.3/std", "activation/layers.3/std"]);
    expect(charts.map((chart) => chart.group)).toEqual(["Training: activation", "Evaluation: activation"]);
  });

  test("calls a chart of one curve as it was logged, and keeps the names of several", () => {
    const charts = chartsOf("job", [curve("part_07/metric_1", "part 07 metric 1"), curve("train/top_1", "top 1", "train"), curve("val/top_1", "top 1", "val")], { final: true });
    expect(charts.map((chart) => [chart.title, chart.group, chart.names])).toEqual([["part_07/metric_1", "part_07", ["part_07/metric_1"]], ["top 1", "", ["train/top_1", "val/top_1"]]]);
  });
  test("a curve that repeats another is left out", () => {
    expect(chartsOf("job", [curve("loss", "loss"), curve("loss2", "loss2", "", { same_as: "loss" })], { final: true })).toHaveLength(1);
  });

  test("hosts of one figure have names and colours of their own", () => {
    const [chart] = chartsOf("job", [curve("cpu", "cpu", "", { id: "1", host: "algo-1" }), curve("cpu", "cpu", "", { id: "2", host: "algo-2" })], { final: true });
    expect(chart!.members.map((member) => member.label)).toEqual(["algo-1", "algo-2"]);
    expect(new Set(chart!.members.map((member) => member.colour)).size).toBe(2);
  });

  test("charts without a prefix are the first group", () => {
    const charts = chartsOf("job", [curve("a/x", "a/x"), curve("loss", "loss"), curve("a/y", "a/y")], { final: true });
    expect(groupsOf(charts)).toHaveLength(1);
    expect(groupsOf(charts, 0).map((group) => [group.name, group.charts.length])).toEqual([["", 1], ["a", 2]]);
  });
});

describe("the wall", () => {
  const groups = groupsOf(chartsOf("job", many, { final: true }));

  test("of 2,000 charts at most forty are in view, wherever one scrolls", () => {
    const layout = layoutOf(groups, 1240, new Set(), new Set());
    for (let top = 0; top < layout.height; top += 777) {
      const charts = visibleItems(layout, top - 240, top + 900 + 240).filter((item) => item.kind === "chart");
      expect(charts.length).toBeLessThanOrEqual(40);
      expect(charts.length).toBeGreaterThan(0);
    }
  });

  test("no card lies on another, and none leaves the width", () => {
    for (const width of [370, 1240]) {
      const { items, height } = layoutOf(groups.slice(0, 2).map((group) => ({ ...group, charts: group.charts.slice(0, 20) })), width, new Set(), new Set([groups[0]!.charts[1]!.key]));
      items.forEach((a, at) => {
        expect(a.left + a.width).toBeLessThanOrEqual(width + 0.01);
        expect(a.top + a.height).toBeLessThanOrEqual(height);
        for (const b of items.slice(at + 1)) {
          const apart = a.left + a.width <= b.left + 0.01 || b.left + b.width <= a.left + 0.01 || a.top + a.height <= b.top || b.top + b.height <= a.top;
          expect(apart, `${a.key} and ${b.key}`).toBe(true);
        }
      });
    }
  });

  test("a folded group is one heading high", () => {
    const layout = layoutOf(groups, 1240, new Set(groups.map((group) => group.name)), new Set());
    expect(layout.items).toHaveLength(20);
    expect(layout.height).toBeLessThan(20 * CARD_HEIGHT / 4);
  });
});

test("the search takes a regular expression, or what is none as it stands", () => {
  expect(["train/loss", "val/loss", "lr"].filter(matcher("^val|LR"))).toEqual(["val/loss", "lr"]);
  expect(["a(b", "ab"].filter(matcher("a(b"))).toEqual(["a(b"]);
});

describe("tables for spreadsheets", () => {
  test("names are quoted, and none becomes a formula", () => {
    expect(quoted('a,"b"')).toBe('"a,""b"""');
    expect(quoted("=cmd()")).toBe("'=cmd()");
    expect(quoted("-0.5")).toBe("-0.5");
    expect(toCsv([["a", "b,c"], ["1", "2"]])).toBe('a,"b,c"\n1,2\n');
  });

  test("curves are one table with a column for their names", () => {
    const parts = [{ label: "train", text: "step,value\n0,2\n1,nan\n" }, { label: "val,x", text: "step,value\n0,3\n" }];
    expect(joinCsv(parts)).toBe('curve,step,value\ntrain,0,2\ntrain,1,nan\n"val,x",0,3\n');
  });
});

describe("live points", () => {
  test("are added behind what was loaded, once", () => {
    const [x, y] = joinPoints(Float64Array.of(0, 1), Float64Array.of(5, 6), { x: [1, 2, 3], y: [6, 7, 8] }, null);
    expect([...(x as Float64Array)]).toEqual([0, 1, 2, 3]);
    expect([...(y as Float64Array)]).toEqual([5, 6, 7, 8]);
  });

  test("outside of the zoom are left out", () => {
    const loaded = [Float64Array.of(0, 1), Float64Array.of(5, 6)] as const;
    expect(joinPoints(...loaded, { x: [2], y: [7] }, [0, 1])[0]).toBe(loaded[0]);
  });
});
