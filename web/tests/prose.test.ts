import { expect, test } from "vitest";
import { piecesOf, plainText } from "../src/prose";

test("what is in backticks is code, whatever else is in the text", () => {
  expect(piecesOf("Call `opt.step()` after <b>`x`")).toEqual([
    { text: "Call ", isCode: false }, { text: "opt.step()", isCode: true }, { text: " after <b>", isCode: false }, { text: "x", isCode: true },
  ]);
});

test.each([["", ""], ["a ` b", "a ` b"], ["``", "``"], ["`a\nb`", "`a\nb`"], ["`a` `", "a `"]])("%s as text is %s", (text, plain) => expect(plainText(text)).toBe(plain));
