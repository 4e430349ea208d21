// Tables for spreadsheets. Pure.

// Texts that each have the same heading, as one table with the name of each in its first column.
export function joinCsv(parts: readonly { label: string; text: string }[]): string {
  return parts.map(({ label, text }, at) => {
    const [head, ...rows] = text.trimEnd().split("\n");
    const name = quoted(label);
    return [...(at ? [] : [`curve,${head}`]), ...rows.map((row) => `${name},${row}`)].join("\n");
  }).join("\n") + "\n";
}

export const toCsv = (rows: readonly (readonly string[])[]): string => `${rows.map((row) => row.map(quoted).join(",")).join("\n")}\n`;

// A cell that a spreadsheet would take for a formula starts with an apostrophe. Numbers stay numbers.
export function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?\d/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}
