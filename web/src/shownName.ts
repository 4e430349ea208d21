// Names of jobs as people write them: `my-run-v2--x5` of the API is `my_run.v2`. As texts/shown_names.py has it. Pure.

const CODED = /^(.+)--x([1-9a-z][0-9a-z]*)$/;
const SHOWN = /^[a-zA-Z0-9]+([._-]+[a-zA-Z0-9]+)*$/;
const SEPARATORS = "-_.";

export function shownName(wire: string): string {
  const coded = CODED.exec(wire);
  if (!coded) return wire;
  const shown = decoded(coded[1]!, numberOf(coded[2]!));
  return wireName(shown) === wire ? shown : wire;
}

// What is no name of people stays.
export function wireName(shown: string): string {
  const words = shown.replace(/[._]/g, "-");
  if (words === shown || !SHOWN.test(shown)) return shown;
  let code = 0n;
  for (const letter of shown) if (SEPARATORS.includes(letter)) code = code * 3n + BigInt(SEPARATORS.indexOf(letter));
  return `${words}--x${code.toString(36)}`;
}

function decoded(words: string, code: bigint): string {
  let shown = "";
  let left = code;
  for (const letter of [...words].reverse()) {
    shown = (letter === "-" ? SEPARATORS[Number(left % 3n)]! : letter) + shown;
    if (letter === "-") left /= 3n;
  }
  return shown;
}

const numberOf = (digits: string): bigint => [...digits].reduce((sum, digit) => sum * 36n + BigInt(parseInt(digit, 36)), 0n);
