// Light or dark: what the system prefers, unless the person chose. Charts read colours from the style sheet.
import { createSignal } from "solid-js";

export type Theme = "light" | "dark";

const preferred = window.matchMedia("(prefers-color-scheme: dark)");
const [chosen, setChosen] = createSignal<Theme | null>(stored());
const [system, setSystem] = createSignal<Theme>(preferred.matches ? "dark" : "light");
preferred.addEventListener("change", () => {
  setSystem(preferred.matches ? "dark" : "light");
  apply();
});
apply();

export function theme(): Theme {
  return chosen() ?? system();
}

export function toggleTheme(): void {
  const next = theme() === "dark" ? "light" : "dark";
  setChosen(next);
  try {
    localStorage.setItem("trackside.theme", next);
  } catch {
    // storage is off: the choice holds until the page is closed
  }
  apply();
}

// A colour of the style sheet, for canvases. Reads the theme, so that effects run again when it changes.
export function colour(name: string): string {
  theme();
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function apply(): void {
  document.documentElement.dataset.theme = theme();
}

function stored(): Theme | null {
  try {
    const value = localStorage.getItem("trackside.theme");
    return value === "light" || value === "dark" ? value : null;
  } catch {
    return null;
  }
}
