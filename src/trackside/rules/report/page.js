"use strict";
(() => {
  const NOT_SAVED = 65535, NOT_FINITE = 65534, ZERO = 65533, LEVELS = 65000;
  const RAMP = [[68, 1, 84], [70, 50, 126], [54, 92, 141], [39, 127, 142], [31, 161, 135], [74, 193, 109], [160, 218, 57], [253, 231, 37]];

  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const showTip = (event, text) => {
    tip.textContent = text; // a text, never markup: names come from users
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8)) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY + 16, innerHeight - height - 8)) + "px";
  };
  const hideTip = () => { tip.hidden = true; };

  const number = (value) => {
    if (typeof value !== "number") return String(value);
    const size = Math.abs(value);
    return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(3) : String(+value.toPrecision(5));
  };

  const nearest = (sorted, value) => {
    let low = 0, high = sorted.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < value) low = middle + 1; else high = middle;
    }
    return low > 0 && value - sorted[low - 1] < sorted[low] - value ? low - 1 : low;
  };

  for (const svg of document.querySelectorAll("svg[data-chart]")) {
    const { from: [low, high, start, end], x: name, unit, lines } = JSON.parse(svg.dataset.chart);
    const cursor = svg.querySelector(".cursor");
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const place = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      const wanted = low + (place - start) / (end - start) * (high - low);
      const found = lines.filter((line) => line.x.length).map((line) => [line, nearest(line.x, wanted)]);
      if (!found.length) return;
      const at = found[0][0].x[found[0][1]];
      const across = start + (at - low) / (high - low) * (end - start);
      cursor.setAttribute("x1", across);
      cursor.setAttribute("x2", across);
      cursor.setAttribute("visibility", "visible");
      const said = found.map(([line, index]) => `${lines.length > 1 ? line.name + "  " : ""}${number(line.y[index])} ${unit}`);
      showTip(event, `${name} ${number(at)}\n${said.join("\n")}`);
    });
    svg.addEventListener("pointerleave", () => { cursor.setAttribute("visibility", "hidden"); hideTip(); });
  }

  const bytes = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0)).buffer;

  const colour = (cell, low, high) => {
    if (cell === NOT_SAVED) return [0, 0, 0, 0];
    if (cell === NOT_FINITE) return [255, 45, 85, 255];
    if (cell === ZERO) return [0, 0, 0, 255];
    const within = Math.min(1, Math.max(0, (cell / LEVELS - low) / (high - low)));
    const place = within * (RAMP.length - 1);
    const left = Math.min(Math.floor(place), RAMP.length - 2);
    const share = place - left;
    return [0, 1, 2].map((part) => RAMP[left][part] * (1 - share) + RAMP[left + 1][part] * share).concat(255);
  };

  for (const canvas of document.querySelectorAll("canvas[data-heat]")) {
    const cells = new Uint16Array(bytes(canvas.dataset.heat));
    const steps = new Int32Array(bytes(canvas.dataset.steps));
    const names = JSON.parse(canvas.dataset.names);
    const low = +canvas.dataset.low, high = +canvas.dataset.high;
    const columns = canvas.width;
    const context = canvas.getContext("2d");
    const picture = context.createImageData(columns, canvas.height);
    const [dark, bright] = [canvas.dataset.dark, canvas.dataset.bright].map((each) => (each - low) / (high - low));
    cells.forEach((cell, index) => picture.data.set(colour(cell, dark, bright), 4 * index));
    context.putImageData(picture, 0, 0);
    const value = (cell) => {
      if (cell === NOT_SAVED) return "not saved";
      if (cell === NOT_FINITE) return "not finite";
      return cell === ZERO ? "0" : number(10 ** (low + cell / LEVELS * (high - low)));
    };
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const column = Math.floor((event.clientX - box.left) / box.width * columns);
      const row = Math.floor((event.clientY - box.top) / box.height * names.length);
      if (column < 0 || row < 0 || column >= columns || row >= names.length) return;
      showTip(event, `${names[row]}\nstep ${steps[column]}: ${canvas.dataset.figure} ${value(cells[row * columns + column])}`);
    });
    canvas.addEventListener("pointerleave", hideTip);
  }

  document.documentElement.dataset.drawn = "yes";
})();
