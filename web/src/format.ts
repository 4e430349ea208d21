// Numbers and times as people read them. Pure.
import type { Num } from "./api";

export function toNumber(value: Num | null | undefined): number {
  if (typeof value === "number") return value;
  if (value === "Infinity") return Infinity;
  if (value === "-Infinity") return -Infinity;
  return NaN;
}

export function formatNumber(value: Num | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return "–";
  const number = toNumber(value);
  if (Number.isNaN(number)) return "NaN";
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  if (number === 0) return "0";
  const size = Math.abs(number);
  if (Number.isInteger(number) && size < 1e7) return grouped(number);
  if (size >= 1e6 || size < 1e-3) return number.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e").replace("e+", "e");
  return trimmed(number.toPrecision(digits));
}

// Of marks on one axis, ascending: with as many digits as tell where each is.
export function formatTicks(values: readonly number[], digits = 3): string[] {
  const most = values.length > 1 ? (values[1]! - values[0]!) / 20 : Infinity;
  const texts = values.map((value) => formatNumber(value, digits));
  const isRight = texts.every((text, at) => Math.abs(Number(text.replaceAll(",", "")) - values[at]!) <= most);
  return isRight || digits >= MOST_DIGITS ? texts : formatTicks(values, digits + 1);
}

export function grouped(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

export function formatSeconds(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, seconds);
  if (whole < 1) return `${Math.round(whole * 1000)} ms`;
  if (whole < 60) return `${trimmed(whole.toFixed(whole < 10 ? 1 : 0))} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${two((whole % 86400) / 3600)} h`;
}

export function formatBytes(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined) return "–";
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let value = bytes;
  let at = 0;
  while (value >= 1000 && at < units.length - 1) {
    value /= 1000;
    at += 1;
  }
  return `${at === 0 ? value : trimmed(value.toPrecision(3))} ${units[at]}`;
}

export function formatTime(time: number | null | undefined, now: number = Date.now() / 1000): string {
  if (!time) return "–";
  const moment = new Date(time * 1000);
  const clock = `${two(moment.getHours())}:${two(moment.getMinutes())}`;
  const days = Math.round((midnight(now) - midnight(time)) / 86400);
  if (days === 0) return clock;
  if (days === 1) return `yesterday ${clock}`;
  const date = `${moment.getDate()} ${MONTHS[moment.getMonth()]}`;
  return moment.getFullYear() === new Date(now * 1000).getFullYear() ? `${date} ${clock}` : `${date} ${moment.getFullYear()}`;
}

export function formatClock(time: number): string {
  const moment = new Date(time * 1000);
  return `${two(moment.getHours())}:${two(moment.getMinutes())}:${two(moment.getSeconds())}`;
}

export function ago(time: number, now: number = Date.now() / 1000): string {
  const seconds = Math.max(0, now - time);
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

export function plural(count: number, word: string, words = `${word}s`): string {
  return `${grouped(count)} ${count === 1 ? word : words}`;
}

const MOST_DIGITS = 12;
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (value: number): string => String(Math.floor(value)).padStart(2, "0");
const trimmed = (text: string): string => (text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text);

function midnight(time: number): number {
  const moment = new Date(time * 1000);
  moment.setHours(0, 0, 0, 0);
  return moment.getTime() / 1000;
}
