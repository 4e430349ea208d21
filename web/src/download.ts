// Files that the page makes.

export function download(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name.replace(/[^\w.-]+/g, "_");
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// A chart with its title and legend, as a picture.
export function downloadPicture(name: string, plot: HTMLCanvasElement, title: string, legend: { label: string; colour: string }[], colours: { background: string; text: string }): void {
  const scale = devicePixelRatio;
  const head = (legend.length ? 44 : 26) * scale;
  const canvas = document.createElement("canvas");
  canvas.width = plot.width + 16 * scale;
  canvas.height = plot.height + head + 8 * scale;
  const ctx = canvas.getContext("2d")!;
  ctx.fillStyle = colours.background;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = colours.text;
  ctx.font = `600 ${14 * scale}px system-ui, sans-serif`;
  ctx.fillText(title, 10 * scale, 19 * scale);
  ctx.font = `${12 * scale}px system-ui, sans-serif`;
  let left = 10 * scale;
  for (const { label, colour } of legend) {
    if (left > canvas.width - 60 * scale) break;
    ctx.fillStyle = colour;
    ctx.fillRect(left, 28 * scale, 9 * scale, 9 * scale);
    ctx.fillStyle = colours.text;
    ctx.fillText(label, left + 13 * scale, 37 * scale);
    left += 27 * scale + ctx.measureText(label).width;
  }
  ctx.drawImage(plot, 8 * scale, head);
  canvas.toBlob((blob) => blob && download(`${name}.png`, blob));
}
