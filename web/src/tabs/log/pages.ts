// Lines of a log that have been loaded: some, anywhere among millions. Pure.

export interface LogLine { time: number; text: string }

const PAGE = 200;
const MOST_PAGES = 80;

export class LogPages {
  private pages = new Map<number, (LogLine | undefined)[]>();   // oldest use first

  get(line: number): LogLine | undefined {
    return this.pages.get(pageOf(line))?.[(line - 1) % PAGE];
  }

  put(first: number, lines: readonly LogLine[]): void {
    lines.forEach((line, at) => {
      const number = first + at;
      const page = this.pages.get(pageOf(number)) ?? new Array<LogLine | undefined>(PAGE);
      page[(number - 1) % PAGE] = line;
      this.use(pageOf(number), page);
    });
    for (const key of this.pages.keys()) {
      if (this.pages.size <= MOST_PAGES) break;
      this.pages.delete(key);
    }
  }

  // What to load next for these lines (the last one included): from the first that is missing to the end of its gap or page.
  missing(first: number, last: number): { line: number; count: number } | null {
    for (let line = Math.max(first, 1); line <= last; line++) {
      if (this.get(line)) continue;
      let end = line;
      while (end + 1 <= last + PAGE && !this.get(end + 1) && end + 1 - line < PAGE) end++;
      return { line, count: end - line + 1 };
    }
    for (let key = pageOf(Math.max(first, 1)); key <= pageOf(last); key++) {
      const page = this.pages.get(key);
      if (page) this.use(key, page);
    }
    return null;
  }

  private use(key: number, page: (LogLine | undefined)[]): void {
    this.pages.delete(key);
    this.pages.set(key, page);
  }
}

const pageOf = (line: number): number => Math.floor((line - 1) / PAGE);
