// Sentences of rules and errors mark code by backticks. Pure.

export interface Piece { text: string; isCode: boolean }

// A backtick without a second one is text, as is an empty pair.
export function piecesOf(text: string): Piece[] {
  return text.split(/`([^`\n]+)`/).flatMap((part, at) => (part ? [{ text: part, isCode: at % 2 === 1 }] : []));
}

// Where nothing but text can be: labels, titles, pictures.
export const plainText = (text: string): string => piecesOf(text).map((piece) => piece.text).join("");
