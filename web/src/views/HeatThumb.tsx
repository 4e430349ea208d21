// A heat map as small as a picture in a text, with the place of a finding.
import { createEffect, type JSX } from "solid-js";
import { colour, theme } from "../theme";
import { colourCells, columnAt, type HeatData, joinRows } from "../tabs/heat/cells";
import { palette } from "../tabs/heat/palettes";

const WIDTH = 400;
const HEIGHT = 150;

export function HeatThumb(props: { data: HeatData; step: number | null; tensor: string }): JSX.Element {
  let canvas!: HTMLCanvasElement;
  createEffect(() => {
    const { names, cells, steps, diverging } = props.data;
    const rows = Math.min(names.length, HEIGHT);
    const made = document.createElement("canvas");
    made.width = Math.max(steps.length, 1);
    made.height = rows;
    const pixels = new ImageData(made.width, made.height);
    colourCells(joinRows(cells, names.length, steps.length, rows, diverging), palette({ dark: theme() === "dark", diverging }), new Uint32Array(pixels.data.buffer));
    made.getContext("2d")!.putImageData(pixels, 0, 0);
    const ctx = canvas.getContext("2d")!;
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(made, 0, 0, WIDTH, HEIGHT);
    if (props.step === null) return;
    ctx.strokeStyle = colour("bad");
    ctx.lineWidth = 2;
    const x = ((columnAt(props.data.starts, props.step) + 0.5) / made.width) * WIDTH;
    const row = names.indexOf(props.tensor);
    ctx.beginPath();
    ctx.moveTo(x, 0);
    ctx.lineTo(x, HEIGHT);
    if (row >= 0) ctx.rect(x - 7, ((row + 0.5) / names.length) * HEIGHT - 7, 14, 14);
    ctx.stroke();
  });
  return <canvas ref={canvas} class="heat-thumb" width={WIDTH} height={HEIGHT} />;
}
